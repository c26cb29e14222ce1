//! Learning that interfaces come and go, and sleeping until something happens.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;

use super::sys;

/// A descriptor that is readable when packets wait on one of several sockets, or an interface of the
/// machine has changed. Sockets may be closed and others added while somebody sleeps on it.
#[derive(Debug)]
pub(super) struct Watch {
    all: OwnedFd,
    changes: OwnedFd,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let changes = sys::link_changes()?;
        let watch = Self { all, changes };
        watch.add(&watch.changes)?;
        Ok(watch)
    }

    /// Watches a socket for as long as it is open. This does not keep it open.
    pub(super) fn add(&self, socket: &impl AsFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.all, socket, data, epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Whether an interface has changed since the last call.
    pub(super) fn take_changes(&self) -> bool {
        sys::drain(&self.changes)
    }

    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.all.try_clone()
    }
}
