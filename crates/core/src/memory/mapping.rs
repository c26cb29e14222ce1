//! Large anonymous mappings, on huge pages if there are any.

use std::fmt;
use std::ptr::NonNull;

use super::numa;

/// Mappings start and end at a multiple of this size, that of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Kinds of pages under a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageKind {
    /// Reserved huge pages of 2 MiB (`hugetlbfs`).
    Huge,
    /// Ordinary pages; transparent huge pages were requested and granted.
    Transparent,
    /// Ordinary pages.
    Small,
}

impl PageKind {
    /// Bytes that are certain to be physically contiguous.
    pub fn page(self) -> usize {
        match self {
            PageKind::Huge => HUGE_PAGE,
            PageKind::Transparent | PageKind::Small => 4096,
        }
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageKind::Huge => "huge pages",
            PageKind::Transparent => {
                "ordinary pages (no huge pages reserved; transparent ones requested)"
            }
            PageKind::Small => "ordinary pages (no huge pages reserved)",
        })
    }
}

/// Asks the kernel for huge pages for the memory of a large table, so that reading it causes fewer TLB
/// misses. The kernel may refuse; the contents do not change.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    let memory = memory.as_ptr_range();
    let (start, end) = (memory.start.addr(), memory.end.addr());
    let whole = start.next_multiple_of(HUGE_PAGE)..end - end % HUGE_PAGE;
    if !whole.is_empty() {
        system::advise(memory.start.cast_mut().cast(), whole.start - start, whole.len());
    }
}

/// Zeroed memory that stays mapped as long as the process runs.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    kind: PageKind,
}

// SAFETY: the mapping hands out addresses only; who may use which bytes is settled by the pool.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes, preferably from the NUMA node. `None` when the system refuses.
    pub(super) fn new(bytes: usize, node: Option<usize>) -> Option<Mapping> {
        let len = bytes.checked_next_multiple_of(HUGE_PAGE)?;
        let mapping = system::huge(len).or_else(|| system::ordinary(len))?;
        if let Some(node) = node {
            numa::prefer(mapping.base, mapping.len, node);
        }
        Some(mapping)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn kind(&self) -> PageKind {
        self.kind
    }

    /// The address at `offset` bytes, if `len` bytes from there are inside the mapping.
    pub(super) fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the offset lies within the mapping, as just checked.
        Some(unsafe { self.base.add(offset) })
    }
}

#[cfg(not(miri))]
mod system {
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{HUGE_PAGE, Mapping, PageKind};

    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// Requests transparent huge pages for `len` bytes from an offset on.
    pub(super) fn advise(memory: *mut u8, offset: usize, len: usize) {
        // SAFETY: advice on the caller's memory; it changes no contents, and a failure changes nothing.
        let _ = unsafe { madvise(memory.wrapping_add(offset).cast(), len, Advice::LinuxHugepage) };
    }

    /// Reserved huge pages. The kernel reserves them now, so that touching them later cannot fail.
    pub(super) fn huge(len: usize) -> Option<Mapping> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(null_mut(), len, ACCESS, flags) }.ok()?;
        Some(Mapping { base: NonNull::new(base.cast())?, len, kind: PageKind::Huge })
    }

    /// Ordinary pages, aligned so that the kernel can use transparent huge pages for all of it.
    pub(super) fn ordinary(len: usize) -> Option<Mapping> {
        let wide = len.checked_add(HUGE_PAGE)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(null_mut(), wide, ACCESS, flags) }.ok()?;
        let skip = start.align_offset(HUGE_PAGE).min(HUGE_PAGE);
        let base = start.wrapping_byte_add(skip);
        // SAFETY: both pieces lie within the mapping just made and outside of what is kept. A failure leaves
        // unused address space behind and nothing else.
        unsafe {
            if skip > 0 {
                let _ = munmap(start, skip);
            }
            if skip < HUGE_PAGE {
                let _ = munmap(base.wrapping_byte_add(len), HUGE_PAGE - skip);
            }
        }
        // SAFETY: advice on a mapping of our own that nobody uses yet; it changes no contents.
        let advised = unsafe { madvise(base, len, Advice::LinuxHugepage) };
        let kind = if advised.is_ok() { PageKind::Transparent } else { PageKind::Small };
        Some(Mapping { base: NonNull::new(base.cast())?, len, kind })
    }
}

#[cfg(miri)]
mod system {
    use std::alloc::{Layout, alloc_zeroed};
    use std::ptr::NonNull;

    use super::{Mapping, PageKind};

    pub(super) fn advise(_memory: *mut u8, _offset: usize, _len: usize) {}

    pub(super) fn huge(_len: usize) -> Option<Mapping> {
        None
    }

    pub(super) fn ordinary(len: usize) -> Option<Mapping> {
        let layout = Layout::from_size_align(len, 4096).ok()?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Mapping { base, len, kind: PageKind::Small })
    }
}
