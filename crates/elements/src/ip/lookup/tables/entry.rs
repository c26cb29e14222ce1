//! Cells of the tables, as narrow as the numbers in them allow.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use zerocopy::FromZeros;

/// A cell that holds the number of a hop or, with [`Entry::MARK`], another number.
///
/// Readers load cells without a lock while the writer stores them.
pub(super) trait Entry: FromZeros + Send + Sync + Debug + 'static {
    /// The highest bit; numbers are below it.
    const MARK: u32;

    /// The value of the cell.
    fn load(&self) -> u32;

    /// Stores a value, and makes everything written before it visible to readers that see it.
    fn store(&self, value: u32);
}

impl Entry for AtomicU16 {
    const MARK: u32 = 1 << 15;

    #[inline(always)]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed).into()
    }

    #[inline]
    fn store(&self, value: u32) {
        self.store(value as u16, Ordering::Release);
    }
}

impl Entry for AtomicU32 {
    const MARK: u32 = 1 << 31;

    #[inline(always)]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, value: u32) {
        self.store(value, Ordering::Release);
    }
}
