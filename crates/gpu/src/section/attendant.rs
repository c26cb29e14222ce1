//! Slow work on a device, aside from the threads that carry packets.

use std::sync::mpsc::{Sender, channel};

use millrace_core::Lock;

/// Something to do.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other. Until it is hired, jobs are done by whoever gives them.
#[derive(Default)]
pub(super) struct Attendant {
    jobs: Lock<Option<Sender<Job>>>,
}

impl Attendant {
    /// Starts the thread, which ends with the attendant. To be called by a thread that is not bound to a core, since the
    /// new one would be bound to the same.
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

    /// Whether there is a thread for the jobs.
    pub(super) fn is_hired(&self) -> bool {
        self.jobs.lock().is_some()
    }

    /// Has something done.
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
