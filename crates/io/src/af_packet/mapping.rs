//! Memory that is shared with the kernel: a ring of packets.

#![allow(unsafe_code, reason = "memory that the kernel writes, too")]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The ring of a packet socket, mapped until this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; who may touch which bytes is settled
// by the status words in it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring of a socket, which has `length` bytes.
    pub(super) fn new(socket: impl AsFd, length: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // Present pages spare the first packets a fault each.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), length, access, flags, socket, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// The status word at an offset, with which one side hands bytes to the other.
    pub(super) fn word(&self, at: usize) -> Option<&AtomicU32> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.length {
            return None;
        }
        // SAFETY: within the mapping and aligned; both sides access it as a whole word.
        Some(unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU32>() })
    }

    /// Bytes to read.
    ///
    /// # Safety
    /// A status word gives us the bytes, and does so until the slice is gone.
    pub(super) unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        // SAFETY: within the mapping, which is initialised; nobody writes by the caller's promise.
        Some(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(range.start), range.len())
        })
    }

    /// Bytes to write.
    ///
    /// # Safety
    /// A status word gives us the bytes, and does so until the slice is gone.
    pub(super) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        // SAFETY: as above; nobody else reads, and `self` is borrowed mutably.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.base.as_ptr().add(range.start), range.len())
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and all slices of it are gone. It cannot fail
        // for a mapping that there is.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}
