//! A queue of an interface, as its two directions share it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::set_up::Interface;

/// One queue, of which both directions are the same descriptor.
pub(super) struct Port {
    /// Dropped first: what is undone must not be undone under a queue.
    pub(super) file: OwnedFd,
    pub(super) _interface: Arc<Interface>,
}
