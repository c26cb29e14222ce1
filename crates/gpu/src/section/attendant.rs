//! A thread for slow work on a device, so that the threads that process packets need not wait.

use std::sync::mpsc::{Sender, channel};

use millrace_core::Lock;

/// A piece of work.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A thread that executes one job after the other. Before it is started, the caller executes jobs itself.
#[derive(Default)]
pub(super) struct Attendant {
    jobs: Lock<Option<Sender<Job>>>,
}

impl Attendant {
    /// Starts the thread, which ends with the attendant. Call it from a thread that is not pinned to a core, because
    /// the new thread inherits the pinning.
    pub(super) fn hire(&self) {
        let mut jobs = self.jobs.lock();
        if jobs.is_some() {
            return;
        }
        let (sender, receiver) = channel::<Job>();
        let work = move || receiver.into_iter().for_each(|job| job());
        if std::thread::Builder::new().name("millrace-gpu".to_owned()).spawn(work).is_ok() {
            *jobs = Some(sender);
        }
    }

    /// True if the thread is started.
    pub(super) fn is_hired(&self) -> bool {
        self.jobs.lock().is_some()
    }

    /// Executes a job.
    pub(super) fn give(&self, job: Job) {
        let sender = self.jobs.lock().clone();
        let unsent = match sender {
            Some(sender) => sender.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        if let Some(job) = unsent {
            job();
        }
    }
}
