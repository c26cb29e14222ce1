//! The view of the router of this process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use millrace_core::Router;
use rustix::process::{Signal, getpid, kill_process};

use super::messages::Messages;
use super::screen::{is_in_foreground, release};
use super::session::{End, run, wake, waker};
use super::source::Own;
use crate::messages::complain;
use crate::model::Model;

/// The time between two refreshes.
const PERIOD: Duration = Duration::from_secs(1);

/// A terminal may take nothing any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that shows the router until this is dropped.
pub(crate) struct Live {
    ended: Arc<AtomicBool>,
    waker: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Ends with the router, which the user ends.
struct WithRouter(Arc<AtomicBool>);

impl End for WithRouter {
    const WORD: &'static str = "end the router";

    fn has_come(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn ask(&self) {
        // What Ctrl-C does.
        let _ = kill_process(getpid(), Signal::INT);
    }
}

impl Live {
    /// Starts to show a running router on standard output, which is a terminal. In the background nothing is shown.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(router: Arc<Router>, model: Model) -> io::Result<Self> {
        let ended = Arc::<AtomicBool>::default();
        let waker = waker()?;
        let (end, woken) = (WithRouter(ended.clone()), waker.clone());
        let show = move || {
            let source = Box::new(Own { router, model });
            if let Err(error) = run(source, PERIOD, Some(Messages::default()), &woken, &end) {
                complain(format_args!("the view: {error}"));
            }
        };
        let thread = match is_in_foreground() {
            true => Some(Builder::new().name("live".to_owned()).spawn(show)?),
            false => None,
        };
        Ok(Self { ended, waker, thread })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        wake(&self.waker);
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        release();
    }
}
