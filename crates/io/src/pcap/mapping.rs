//! A memory-mapped file.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The bytes of a regular file, mapped for reading, with its length at that time.
///
/// The pages belong to the file: while the mapping exists, no process may write to the file or make it
/// shorter. Reading a page that was cut off raises `SIGBUS`, which ends the program. That is why a
/// [`Reader`](super::Reader) maps a file only on request.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps all of `file`, which must not be empty.
    pub(super) fn new(file: &File) -> io::Result<Mapping> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the place, so that no memory in use is replaced.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, length })
    }

    /// The bytes of the file.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start + length` is mapped for reading until `self` is dropped. That the
        // bytes do not change meanwhile is what whoever asks for a mapping vouches for.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `mmap` gave, and no slice of it outlives `self`.
        // Nothing can be done about a failure; it leaves the pages mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

// SAFETY: the mapping is read-only memory that belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Mapping {}
