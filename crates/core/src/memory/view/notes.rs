//! What is noted of views beside their words.

use std::sync::atomic::{Ordering, fence};

use crate::memory::descriptor::{LARGE, Slot};

/// Which fields of a [`View`](super::View) may have changed since it was made. After inlining the compiler knows what an element
/// changes, and needs no comparison to find out what to store.
#[derive(Clone, Copy)]
pub(crate) struct Changed {
    pub(crate) slot: bool,
    pub(crate) data: bool,
    pub(crate) len: bool,
    pub(crate) headers: bool,
}

impl Changed {
    pub(super) const NOTHING: Self = Self { slot: false, data: false, len: false, headers: false };
    pub(super) const ALL: Self = Self { slot: true, data: true, len: true, headers: true };
}

/// Whether many packets are ready, found out without a branch for each.
#[derive(Default)]
pub(crate) struct Readiness {
    /// Not 0 if one is shared.
    shared: u32,
    /// Beyond [`LARGE`] if one has a large buffer.
    large: u32,
}

impl Readiness {
    #[inline(always)]
    pub(super) fn add(&mut self, slot: Slot) {
        self.shared |= u32::from(slot.holders_word()) ^ 1;
        self.large |= u32::from(slot.buf_len()) + 1;
    }

    /// Whether all are ready.
    #[inline(always)]
    pub(crate) fn of_all(&self) -> bool {
        // What others did with the bytes before they let go of them.
        fence(Ordering::Acquire);
        self.shared == 0 && self.large <= u32::from(LARGE)
    }
}
