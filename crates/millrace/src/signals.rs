//! Ctrl-C and SIGTERM: the first stops the router in good order, the second at once.

use std::sync::Arc;
use std::thread::JoinHandle;

use millrace_core::Router;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Stops a router on signals until this is dropped.
pub(crate) struct StopOnSignal {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl StopOnSignal {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(router: Arc<Router>) -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for (n, signal) in signals.forever().enumerate() {
                match n {
                    0 => router.request_final_stop(),
                    1 => router.halt(),
                    // Something hangs that should have ended.
                    _ => std::process::exit(128 + signal),
                }
            }
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It has no way to fail that matters here.
            let _ = thread.join();
        }
    }
}
