//! Whole pages of the host's memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// The driver registers whole pages, so other memory must not share them.
const PAGE: usize = 4096;

/// Zeroed pages, freed when dropped.
pub(super) struct Pages {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}

impl Pages {
    /// Allocates at least this many bytes; `None` if the system has not enough.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout is not empty.
        let address = unsafe { alloc_zeroed(layout) };
        (!address.is_null()).then_some(Self { address, layout })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.address, self.layout) };
    }
}
