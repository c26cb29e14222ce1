//! A packet on its way from the thread that forwards it to whoever reads the capture.

use millrace_core::drops::Reason;
use millrace_core::memory::annotations::ANNOTATION_LEN;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What is known of a packet; its bytes follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Head {
    /// When the round began, in nanoseconds.
    pub(super) time: i64,
    /// The connection, or the element that drops it.
    pub(super) place: u32,
    /// The packets that pass with it; 0 for a drop.
    pub(super) batch: u32,
    pub(super) length: u32,
    /// The bytes that follow.
    pub(super) captured: u32,
    pub(super) link: u32,
    /// Why it is dropped, by the place in [`Reason::ALL`].
    pub(super) reason: u32,
    pub(super) thread: u32,
    /// Fills the eight bytes up.
    pub(super) spare: u32,
    pub(super) annotations: [u8; ANNOTATION_LEN],
}

impl Head {
    pub(super) fn reason(&self) -> Option<Reason> {
        match self.batch {
            0 => Reason::ALL.get(self.reason as usize).copied(),
            _ => None,
        }
    }
}
