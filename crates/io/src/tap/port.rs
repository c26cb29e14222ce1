//! A queue of an interface, as its two directions share it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::set_up::Interface;

/// One queue; both directions use the same descriptor.
pub(super) struct Port {
    /// Dropped first: the settings must not be restored while a queue is open.
    pub(super) file: OwnedFd,
    pub(super) _interface: Arc<Interface>,
}
