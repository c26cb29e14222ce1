//! What a receiving thread sleeps on: packets, and changes of interfaces.

use std::io;
use std::os::fd::OwnedFd;

use super::sys;
use crate::watch;

/// A descriptor that is readable when packets wait on one of several sockets, or an interface of the machine
/// has changed. Sockets may be closed and added while a thread sleeps on it.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) all: watch::Watch,
    changes: OwnedFd,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        let all = watch::Watch::new()?;
        let changes = sys::link_changes()?;
        all.follow(&changes)?;
        Ok(Self { all, changes })
    }

    /// Whether an interface has changed since the last call.
    pub(super) fn take_changes(&self) -> bool {
        sys::drain(&self.changes)
    }
}
