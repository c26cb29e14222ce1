//! Large tables that take memory only where they are written.

use zerocopy::FromZeros;

use super::error::Error;

/// An array of zeros. The system backs it with memory page by page, when a page is first written.
///
/// # Errors
/// There is no room for it.
pub(super) fn zeroed<T: FromZeros>(count: usize) -> Result<Box<[T]>, Error> {
    <[T]>::new_box_zeroed_with_elems(count).map_err(|_| Error::NoMemory)
}
