//! Large tables that use memory only where they are written.

use zerocopy::FromZeros;

use crate::ip::lookup::routes::error::Error;

/// An array of zeros. The system allocates each page of it when the page is first written.
///
/// # Errors
/// There is not enough memory.
pub(super) fn zeroed<T: FromZeros>(count: usize) -> Result<Box<[T]>, Error> {
    <[T]>::new_box_zeroed_with_elems(count).map_err(|_| Error::NoMemory)
}
