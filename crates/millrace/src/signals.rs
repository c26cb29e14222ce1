//! Signals of the system. No signal loses data. The first SIGINT, SIGTERM or SIGHUP stops the router in good order,
//! and a second one stops it at once. SIGUSR1 prints the summary so far. SIGUSR2 is ignored. Signals that elements
//! handle go to those elements.
//!
//! What is blocked ends, too: a thread that waits for the reader of a pipe, say. After a signal that stops the router,
//! somebody watches whether its threads come on, and whether the summary is written; if not, the program ends. Signals
//! count from the first instruction of the program on ([`Early`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use millrace_core::router::Progress;
use millrace_core::{Lock, Phase, Router};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{FORBIDDEN, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{self, emulate_default_handler, unregister};

use crate::{output, top};

const OWN: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// How often somebody looks, once the program is to end.
const LOOK: Duration = Duration::from_millis(50);

/// So many looks in a row at threads that do not come on are enough: a second.
const PATIENCE: u32 = 20;

/// The same, for a program that was told twice.
const SHORT_PATIENCE: u32 = 10;

/// Elements have ten seconds for what they have under way.
const DRAINING: u32 = 220;

/// A file that has become as long as it may be (SIGXFSZ, see setrlimit(2)) is an error of that write, as a full disk is.
///
/// # Errors
/// The system refuses to install a signal handler.
pub(crate) fn outlive_long_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Counts the signals that come before a router runs. One ends the program within a second if the router has not
/// begun by then: it may wait for a pipe with its configuration. A second one ends it at once.
pub(crate) struct Early {
    ends: Sender<()>,
    thread: JoinHandle<Inbox>,
}

/// Signals that have come.
pub(crate) struct Inbox {
    signals: Signals,
    /// How many of them want the program to stop, and which was the last.
    stops: u32,
    last: i32,
}

impl Early {
    /// Begins to count.
    ///
    /// # Errors
    /// The system refuses to install a signal handler, or to start a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let mut inbox = Inbox { signals: Signals::new(OWN)?, stops: 0, last: 0 };
        let (ends, end) = channel();
        let thread = Builder::new().name("signals".to_owned()).spawn(move || {
            inbox.wait(&end);
            inbox
        })?;
        Ok(Self { ends, thread })
    }

    /// What has come so far. The thread has ended then: it would not be in the sandbox.
    ///
    /// # Errors
    /// The thread has failed.
    pub(crate) fn settle(self) -> io::Result<Inbox> {
        drop(self.ends);
        self.thread.join().map_err(|_| io::Error::other("the thread for signals has failed"))
    }
}

impl Inbox {
    fn wait(&mut self, end: &Receiver<()>) {
        let mut looks = 0;
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.take();
            looks += u32::from(self.stops > 0);
            if self.stops > 1 || looks > PATIENCE {
                give_up(self.last, "stopped before the router ran");
            }
        }
        self.take();
    }

    fn take(&mut self) {
        for signal in self.signals.pending() {
            if is_stop(signal) {
                (self.stops, self.last) = (self.stops + 1, signal);
            }
        }
    }
}

fn is_stop(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP].contains(&signal)
}

/// Ends the program, without a word if nobody would hear it.
fn give_up(signal: i32, why: &str) -> ! {
    top::release();
    let error = io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ready = [PollFd::new(&error, PollFlags::OUT)];
    if poll(&mut ready, Some(&now)) == Ok(1) {
        let mut words = why.to_owned();
        words.push('\n');
        // Not by way of the lock, which a thread that is blocked may hold.
        let _ = rustix::io::write(&error, words.as_bytes());
    }
    low_level::exit(128 + signal)
}

/// From its start to the end of the program, signals stop the router that runs, and reach its elements that handle them.
pub(crate) struct StopOnSignal {
    shared: Arc<Shared>,
    handle: Handle,
}

type Show = Arc<dyn Fn() + Send + Sync>;

struct Shared {
    /// None when the engine has ended: nobody else is to keep the router then.
    target: Lock<Option<Target>>,
    /// Called for SIGUSR1.
    show: Lock<Option<Show>>,
    /// Whether somebody shows.
    shows: AtomicBool,
    /// The phase that a signal has asked for.
    asked: Lock<Option<Phase>>,
}

/// The router that runs.
struct Target {
    router: Arc<Router>,
    wanted: Vec<i32>,
    marks: Vec<signal_hook::SigId>,
}

impl Target {
    fn new(router: Arc<Router>) -> io::Result<Self> {
        let mut wanted = router.signals().wanted();
        wanted.retain(|signal| !FORBIDDEN.contains(signal));
        let mut marks = Vec::new();
        for &signal in &wanted {
            for mark in router.signals().marks(signal).into_iter().flatten() {
                marks.push(flag::register(signal, mark)?);
            }
        }
        router.signals().when_unheard(|signal| {
            // A signal that this process may not handle needs no handler.
            let _ = emulate_default_handler(signal);
        });
        Ok(Self { router, wanted, marks })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.marks.drain(..).for_each(|mark| {
            unregister(mark);
        });
    }
}

impl StopOnSignal {
    /// Begins to handle signals for a router, those included that came before.
    ///
    /// # Errors
    /// The system refuses to install a signal handler, or to start a thread.
    pub(crate) fn start(
        inbox: Inbox,
        router: Arc<Router>,
        show: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let handle = inbox.signals.handle();
        let target = Target::new(router)?;
        target.wanted.iter().try_for_each(|&signal| handle.add_signal(signal))?;
        let shared = Arc::new(Shared {
            target: Lock::new(Some(target)),
            show: Lock::new(Some(Arc::new(show))),
            shows: AtomicBool::new(false),
            asked: Lock::default(),
        });
        let serving = Arc::clone(&shared);
        Builder::new().name("signals".to_owned()).spawn(move || serving.serve(inbox))?;
        Ok(Self { shared, handle })
    }

    /// Another router runs from now on.
    ///
    /// # Errors
    /// The system refuses to install a signal handler; then the router runs without those of its elements.
    pub(crate) fn turn_to(&self, router: Arc<Router>) -> io::Result<()> {
        let target = Target::new(router)?;
        target.wanted.iter().try_for_each(|&signal| self.handle.add_signal(signal))?;
        let mut current = self.shared.target.lock();
        // A signal may have come when the old router had ended already.
        let asked = *self.shared.asked.lock();
        asked.into_iter().for_each(|phase| target.router.enter(phase));
        *current = Some(target);
        Ok(())
    }

    /// The router has ended: what is left to do is to write down what it did.
    pub(crate) fn router_has_ended(&self) {
        drop(self.shared.show.lock().take());
        drop(self.shared.target.lock().take());
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, inbox: Inbox) {
        let Inbox { mut signals, stops, last } = inbox;
        let mut watch = Watch::default();
        (0..stops).for_each(|_| self.stop(last, &mut watch));
        while !signals.handle().is_closed() {
            let came: Vec<i32> = if watch.stops == 0 {
                signals.wait().collect()
            } else {
                sleep(LOOK);
                signals.pending().collect()
            };
            for signal in came {
                self.heed(signal, &mut watch);
            }
            if watch.stops > 0 {
                watch.look(self.target.lock().as_ref());
            }
        }
    }

    fn heed(self: &Arc<Self>, signal: i32, watch: &mut Watch) {
        if let Some(target) = &*self.target.lock()
            && target.wanted.contains(&signal)
        {
            return target.router.wake();
        }
        match signal {
            SIGUSR1 => self.show(),
            _ if is_stop(signal) => self.stop(signal, watch),
            _ => {}
        }
    }

    fn stop(&self, signal: i32, watch: &mut Watch) {
        watch.stops += 1;
        watch.signal = signal;
        if watch.stops > 1 && watch.is_blocked() {
            watch.give_up();
        }
        watch.looks = 0;
        let phase = if watch.stops == 1 { Phase::Ending } else { Phase::Halted };
        let target = self.target.lock();
        *self.asked.lock() = Some(phase);
        target.iter().for_each(|target| target.router.enter(phase));
    }

    /// On a thread of its own, for who reads standard error may not read on.
    fn show(self: &Arc<Self>) {
        if self.shows.swap(true, SeqCst) {
            return;
        }
        let this = Arc::clone(self);
        let shown = Builder::new().name("summary".to_owned()).spawn(move || {
            let show = this.show.lock().clone();
            show.iter().for_each(|show| show());
            this.shows.store(false, SeqCst);
        });
        if shown.is_err() {
            self.shows.store(false, SeqCst);
        }
    }
}

/// Whether a program that was told to end comes to its end.
#[derive(Default)]
struct Watch {
    stops: u32,
    signal: i32,
    /// How often it was found where it was before.
    looks: u32,
    seen: Option<Stage>,
}

/// Where the end is.
enum Stage {
    Runs(Progress),
    Drains,
    /// The summary is written, so much of it by now.
    IsOver(u64),
}

impl Watch {
    /// Looks whether anything has come on since the last look; gives up in the end.
    fn look(&mut self, target: Option<&Target>) {
        let now = match target.map(|target| (target.router.phase(), &target.router)) {
            None => Stage::IsOver(output::written()),
            Some((Phase::Draining | Phase::Halted, _)) => Stage::Drains,
            Some((Phase::Running | Phase::Ending, router)) => Stage::Runs(router.progress()),
        };
        let (is_same, patience) = match (&now, &self.seen) {
            (Stage::Runs(now), Some(Stage::Runs(then))) => (now.is_stuck_since(then), PATIENCE),
            (Stage::Drains, Some(Stage::Drains)) => (true, DRAINING),
            (Stage::IsOver(now), Some(Stage::IsOver(then))) => (now == then, PATIENCE),
            _ => (false, PATIENCE),
        };
        let is_told_twice = self.stops > 1;
        // Who was told twice has no time for what comes on slowly.
        self.looks = if is_same || is_told_twice { self.looks + 1 } else { 0 };
        let patience = if is_told_twice { SHORT_PATIENCE } else { patience };
        if self.looks >= patience {
            self.give_up();
        }
        self.seen = Some(now);
    }

    /// Whether a thread, or who reads the summary, was found twice where it was before.
    fn is_blocked(&self) -> bool {
        self.looks > 1 && matches!(self.seen, Some(Stage::Runs(_) | Stage::IsOver(_)))
    }

    fn give_up(&self) -> ! {
        give_up(self.signal, "ended without a summary: the router or its output is blocked")
    }
}
