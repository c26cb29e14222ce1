//! Slices that stay where they are, because their entries point to each other.

use std::ptr::NonNull;

/// Values in a row that do not move as long as it lives, and are reached by pointers alone.
pub(super) struct Fixed<T>(NonNull<[T]>);

impl<T> FromIterator<T> for Fixed<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let values: Box<[T]> = values.into_iter().collect();
        // SAFETY: a box is not null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(values)) })
    }
}

impl<T> Fixed<T> {
    /// Where a value is. Whoever looks there sees to it that nobody else changes it meanwhile.
    #[inline]
    pub(super) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.0.len(), "{index} of {}", self.0.len());
        // SAFETY: the index is within the slice.
        unsafe { self.0.as_ptr().cast::<T>().add(index) }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the pointers end with it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
