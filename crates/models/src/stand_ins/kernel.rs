//! The kernel, as far as the parts ask it for something: event descriptors, waiting for them, barriers.
//!
//! Time does not pass: who waits for an event waits until it comes. So a thread that nobody wakes is a deadlock, which the
//! checker reports, where in the engine its sleep would only be too long.

/// Barriers on all cores.
pub(crate) mod thread {
    use crate::sync::atomic::barrier_everywhere;

    pub(crate) enum MembarrierCommand {
        RegisterPrivateExpedited,
        PrivateExpedited,
    }

    #[track_caller]
    pub(crate) fn membarrier(command: MembarrierCommand) -> Result<(), ()> {
        if matches!(command, MembarrierCommand::PrivateExpedited) {
            barrier_everywhere();
        }
        Ok(())
    }
}

/// Descriptors.
pub(crate) mod fd {
    use loom::sync::{Condvar, Mutex};

    /// An event descriptor.
    #[derive(Debug)]
    pub(crate) struct OwnedFd {
        pub(super) count: Mutex<u64>,
        pub(super) changed: Condvar,
    }

    pub(crate) trait AsFd {
        fn as_fd(&self) -> &OwnedFd;
    }

    impl AsFd for OwnedFd {
        fn as_fd(&self) -> &OwnedFd {
            self
        }
    }
}

/// Reading and writing.
pub(crate) mod io {
    use std::sync::PoisonError;

    use super::fd::OwnedFd;

    pub(crate) fn write(to: &OwnedFd, _: &[u8]) -> Result<usize, ()> {
        *to.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        to.changed.notify_all();
        Ok(8)
    }

    pub(crate) fn read(from: &OwnedFd, _: &mut [u8]) -> Result<usize, ()> {
        match std::mem::take(&mut *from.count.lock().unwrap_or_else(PoisonError::into_inner)) {
            0 => Err(()),
            _ => Ok(8),
        }
    }
}

/// Waiting for events.
pub(crate) mod event {
    use std::sync::PoisonError;

    use loom::sync::{Condvar, Mutex};

    use super::fd::OwnedFd;

    pub(crate) struct EventfdFlags;

    impl EventfdFlags {
        pub(crate) const NONBLOCK: Self = Self;
        pub(crate) const CLOEXEC: Self = Self;
    }

    impl std::ops::BitOr for EventfdFlags {
        type Output = Self;

        fn bitor(self, _: Self) -> Self {
            self
        }
    }

    pub(crate) fn eventfd(_: u32, _: EventfdFlags) -> Result<OwnedFd, ()> {
        Ok(OwnedFd { count: Mutex::new(0), changed: Condvar::new() })
    }

    #[derive(Clone, Copy)]
    pub(crate) struct PollFlags(bool);

    impl PollFlags {
        pub(crate) const IN: Self = Self(true);

        pub(crate) fn is_empty(self) -> bool {
            !self.0
        }
    }

    pub(crate) struct PollFd<'a>(&'a OwnedFd);

    impl<'a> PollFd<'a> {
        pub(crate) fn new(fd: &'a OwnedFd, _: PollFlags) -> Self {
            Self(fd)
        }

        pub(crate) fn from_borrowed_fd(fd: &'a OwnedFd, _: PollFlags) -> Self {
            Self(fd)
        }

        pub(crate) fn revents(&self) -> PollFlags {
            let count = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
            PollFlags(*count > 0)
        }
    }

    pub(crate) struct Timespec {
        pub(crate) tv_sec: i64,
        pub(crate) tv_nsec: i64,
    }

    /// Waits for the one descriptor, a thread's own. A time of 0 does not wait.
    pub(crate) fn poll(fds: &mut [PollFd<'_>], time: Option<&Timespec>) -> Result<usize, ()> {
        let Some(PollFd(event)) = fds.last() else { return Ok(0) };
        let waits = time.is_none_or(|time| time.tv_sec > 0 || time.tv_nsec > 0);
        let mut count = event.count.lock().unwrap_or_else(PoisonError::into_inner);
        while waits && *count == 0 {
            count = event.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(usize::from(*count > 0))
    }
}
