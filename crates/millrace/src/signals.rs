//! The signals of the system, none of which loses data. The first SIGINT, SIGTERM or SIGHUP stops the router in good
//! order, the second at once; SIGUSR1 shows the summary so far; SIGUSR2 does nothing. Signals that elements listen to
//! are theirs.

use std::sync::Arc;
use std::thread::JoinHandle;

use millrace_core::{Phase, Router};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{emulate_default_handler, unregister};

/// Stops a router on signals, and has its elements hear of them, until this is dropped.
pub(crate) struct StopOnSignal {
    handle: Handle,
    marks: Vec<signal_hook::SigId>,
    thread: Option<JoinHandle<()>>,
}

impl StopOnSignal {
    /// Begins to listen. `show` is called for SIGUSR1.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(
        router: Arc<Router>,
        show: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let mut wanted = router.signals().wanted();
        wanted.retain(|signal| !signal_hook::consts::FORBIDDEN.contains(signal));
        let mut marks = Vec::new();
        for &signal in &wanted {
            for mark in router.signals().marks(signal).into_iter().flatten() {
                marks.push(flag::register(signal, mark)?);
            }
        }
        router.signals().when_unheard(|signal| {
            // What cannot be done to this process need not be.
            let _ = emulate_default_handler(signal);
        });
        let others = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]
            .into_iter()
            .filter(|signal| !wanted.contains(signal));
        let mut signals = Signals::new(others.chain(wanted.iter().copied()))?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut stops = 0;
            for signal in signals.forever() {
                if wanted.contains(&signal) {
                    router.wake();
                    continue;
                }
                match signal {
                    SIGUSR1 => show(),
                    SIGUSR2 => {}
                    _ => {
                        stops += 1;
                        match stops {
                            1 => router.enter(Phase::Ending),
                            2 => router.enter(Phase::Halted),
                            // Something hangs that should have ended.
                            _ => std::process::exit(128 + signal),
                        }
                    }
                }
            }
        })?;
        Ok(Self { handle, marks, thread: Some(thread) })
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        self.handle.close();
        self.marks.drain(..).for_each(|mark| {
            unregister(mark);
        });
        if let Some(thread) = self.thread.take() {
            // It has no way to fail that matters here.
            let _ = thread.join();
        }
    }
}
