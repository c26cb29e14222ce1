//! Each thread's own free slots: what makes a packet cost a few instructions.
//!
//! A thread keeps up to [`MAGAZINE`] slots of each class in a stack. Taking a packet pops, giving one
//! back pushes; only an empty or a full stack goes to the pool, for half a stack at a time. The most
//! recently freed slot is the next one used, so its lines are still in the cache. When a thread ends, its
//! slots go back to the pools.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::arena::{Arena, Pool, SlotClass, lock};
use super::copies::{Copies, CopyCause};
use super::descriptor::{DESCRIPTOR_LEN, Descriptor, FLAG_EXTERNAL, Slot};
use super::numa;

/// Most slots of one class that a thread keeps.
pub(super) const MAGAZINE: usize = 512;

/// Takes a slot of a class. None, counted, when the arena has none left.
#[inline]
pub(super) fn take(class: SlotClass) -> Option<Slot> {
    if let Some(cache) = current()
        && let Some(slot) = cache.magazine(class).pop()
    {
        return Some(slot);
    }
    take_slowly(class)
}

/// Gives back a slot that nobody looks at any more.
#[inline]
pub(super) fn give_back(slot: Slot) {
    if let Some(cache) = current()
        && cache.standard.serves(slot)
    {
        return cache.standard.push(slot);
    }
    give_back_slowly(slot);
}

/// Releases many packets' slots: as [`release`] for each, with the thread's stack looked up once.
#[inline]
pub(super) fn release_all(slots: &[Slot]) {
    let Some(cache) = current() else {
        return slots.iter().copied().for_each(release);
    };
    for (index, slot) in slots.iter().copied().enumerate() {
        if let Some(ahead) = slots.get(index + 8) {
            ahead.prefetch();
        }
        if slot.is_sole() && cache.standard.serves(slot) {
            cache.standard.push(slot);
        } else {
            release(slot);
        }
    }
}

/// A packet is gone: its slot goes back unless others look at its buffer.
#[inline]
pub(super) fn release(slot: Slot) {
    if slot.is_sole() { give_back(slot) } else { release_shared(slot) }
}

#[cold]
fn release_shared(slot: Slot) {
    let owner = slot.buffer_owner();
    if owner != slot {
        give_back(slot);
    }
    if owner.let_go() {
        give_back(owner);
    }
}

#[cold]
fn take_slowly(class: SlotClass) -> Option<Slot> {
    let node = current().map_or_else(numa::current_node, |cache| cache.node);
    let pool = Arena::get().pool(node, class)?;
    let mut first = None;
    match current() {
        Some(cache) => {
            let magazine = cache.magazine(class);
            pool.take(magazine.bulk(), |slot| magazine.push(slot));
            first = magazine.pop();
        }
        // The thread is ending and has no stack any more.
        None => {
            pool.take(1, |slot| first = Some(slot));
        }
    }
    if first.is_none() {
        pool.count_exhausted();
    }
    first
}

#[cold]
fn give_back_slowly(slot: Slot) {
    if slot.flags() & FLAG_EXTERNAL != 0 {
        if let (Some(free), Some(descriptor)) = (EXTERNAL.get(), NonNull::new(slot.as_ptr())) {
            free(descriptor);
        }
        return;
    }
    let Some(pool) = NonNull::new(slot.pool().cast_mut()) else {
        return free_heap(slot);
    };
    // SAFETY: a slot that is neither external nor on the heap names the pool that carved it; pools live as
    // long as the process.
    let pool = unsafe { pool.as_ref() };
    match current().map(|cache| cache.magazine(pool.class())) {
        Some(magazine) if magazine.serves(slot) => magazine.push(slot),
        _ => pool.put(std::iter::once(slot)),
    }
}

static EXTERNAL: OnceLock<fn(NonNull<Descriptor>)> = OnceLock::new();

/// Names the function that takes back slots of a foreign pool (DPDK's mempools). The first call counts;
/// false says that there was one before.
pub fn register_external_release(free: fn(NonNull<Descriptor>)) -> bool {
    EXTERNAL.set(free).is_ok()
}

static HEAP_SLOTS: AtomicUsize = AtomicUsize::new(0);

/// Packets that live on the heap now.
pub(super) fn heap_slots() -> usize {
    HEAP_SLOTS.load(Ordering::Relaxed)
}

fn heap_layout(room: usize) -> Option<Layout> {
    Layout::from_size_align(room.checked_add(DESCRIPTOR_LEN)?, 64).ok()
}

/// A slot on the heap, for packets that no class holds and for copies that must not fail. None only for
/// sizes that no packet can have; running out of memory ends the process as everywhere in Rust.
#[cold]
pub(super) fn take_heap(room: usize) -> Option<Slot> {
    let capacity = u32::try_from(room).ok().filter(|capacity| *capacity > 0)?;
    let layout = heap_layout(room)?;
    // SAFETY: the size is not zero.
    let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
        std::alloc::handle_alloc_error(layout)
    };
    HEAP_SLOTS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: fresh zeroed memory of the right size and alignment; freed only by `free_heap`.
    Some(unsafe { Slot::carve(memory, capacity, null()) })
}

fn free_heap(slot: Slot) {
    if let Some(layout) = heap_layout(slot.capacity() as usize) {
        HEAP_SLOTS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the slot came from `take_heap` (it names no pool) with this layout, and its last holder
        // has just let go of it.
        unsafe { dealloc(slot.as_ptr().cast(), layout) };
    }
}

/// One class's stack of free slots. Only its thread changes it; others may read the length.
#[derive(Debug)]
struct Magazine {
    len: AtomicUsize,
    pool: *const Pool,
    hold: usize,
    slots: Box<[UnsafeCell<MaybeUninit<Slot>>]>,
}

impl Magazine {
    fn new(pool: Option<&'static Pool>) -> Magazine {
        let hold = pool.map_or(0, Pool::hold);
        Magazine {
            len: AtomicUsize::new(0),
            pool: pool.map_or(null(), std::ptr::from_ref),
            hold,
            slots: (0..hold).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        }
    }

    /// Whether the slot came from the pool that this stack belongs to.
    #[inline(always)]
    fn serves(&self, slot: Slot) -> bool {
        std::ptr::eq(slot.pool(), self.pool)
    }

    /// How many slots travel to and from the pool at a time.
    fn bulk(&self) -> usize {
        self.hold.div_ceil(2)
    }

    #[inline(always)]
    fn pop(&self) -> Option<Slot> {
        let len = self.len.load(Ordering::Relaxed);
        let top = len.checked_sub(1)?;
        self.len.store(top, Ordering::Relaxed);
        // SAFETY: entries below `len` are in bounds and initialised, and this thread alone touches them.
        Some(unsafe { (*self.slots.get_unchecked(top).get()).assume_init() })
    }

    #[inline(always)]
    fn push(&self, slot: Slot) {
        let mut len = self.len.load(Ordering::Relaxed);
        if len == self.hold {
            len = self.spill();
        }
        // SAFETY: `len` is below `hold`, the number of entries, and this thread alone touches them.
        unsafe { (*self.slots.get_unchecked(len).get()).write(slot) };
        self.len.store(len + 1, Ordering::Relaxed);
    }

    /// Makes room by handing the older half to the pool; returns the new length.
    #[cold]
    fn spill(&self) -> usize {
        let bulk = self.bulk();
        self.hand_over(0..bulk);
        let kept = self.hold - bulk;
        for index in 0..kept {
            // SAFETY: both indices are below `hold`; all entries are initialised when the stack is full.
            unsafe {
                *self.slots.get_unchecked(index).get() =
                    *self.slots.get_unchecked(index + bulk).get();
            }
        }
        self.len.store(kept, Ordering::Relaxed);
        kept
    }

    fn hand_over(&self, entries: std::ops::Range<usize>) {
        // SAFETY: pools live as long as the process.
        let Some(pool) = (unsafe { self.pool.as_ref() }) else { return };
        let slots = self.slots.get(entries).unwrap_or_default();
        pool.put(slots.iter().map(|entry| {
            // SAFETY: callers name initialised entries and forget them afterwards.
            unsafe { (*entry.get()).assume_init() }
        }));
    }

    fn empty(&self) {
        self.hand_over(0..self.len.load(Ordering::Relaxed));
        self.len.store(0, Ordering::Relaxed);
    }
}

/// What a thread keeps.
#[derive(Debug)]
#[repr(align(128))]
struct ThreadCache {
    standard: Magazine,
    jumbo: Magazine,
    shell: Magazine,
    node: usize,
    copies: [AtomicU64; CopyCause::ALL.len()],
}

// SAFETY: the entries of the stacks are touched by the thread that the cache belongs to alone (it is
// reached through thread-local storage only); other threads read the atomics.
unsafe impl Send for ThreadCache {}
// SAFETY: as above.
unsafe impl Sync for ThreadCache {}

impl ThreadCache {
    fn new() -> ThreadCache {
        let arena = Arena::get();
        let node = numa::current_node();
        ThreadCache {
            standard: Magazine::new(arena.pool(node, SlotClass::Standard)),
            jumbo: Magazine::new(arena.pool(node, SlotClass::Jumbo)),
            shell: Magazine::new(arena.pool(node, SlotClass::Shell)),
            node,
            copies: [const { AtomicU64::new(0) }; CopyCause::ALL.len()],
        }
    }

    #[inline(always)]
    fn magazine(&self, class: SlotClass) -> &Magazine {
        match class {
            SlotClass::Standard => &self.standard,
            SlotClass::Jumbo => &self.jumbo,
            SlotClass::Shell => &self.shell,
        }
    }

    fn add_copies_to(&self, sum: &mut Copies) {
        for (cause, count) in CopyCause::ALL.into_iter().zip(&self.copies) {
            sum.add(cause, count.load(Ordering::Relaxed));
        }
    }
}

/// All living threads' caches, and the counts of those that ended.
struct Threads {
    caches: Vec<Arc<ThreadCache>>,
    copies_of_ended: Option<Copies>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads { caches: Vec::new(), copies_of_ended: None });

thread_local! {
    /// The fast way to this thread's cache: no destructor, so no check on access.
    static CURRENT: Cell<*const ThreadCache> = const { Cell::new(null()) };
    /// Owns the cache and empties it when the thread ends.
    static KEEPER: Keeper = const { Keeper(RefCell::new(None)) };
}

struct Keeper(RefCell<Option<Arc<ThreadCache>>>);

/// This thread's cache; none once the thread has begun to end.
#[inline(always)]
fn current<'a>() -> Option<&'a ThreadCache> {
    let cache = CURRENT.get();
    // SAFETY: not null between `attach` and the keeper's end only, and the keeper owns the cache meanwhile.
    // The reference is not kept beyond the calls of this module.
    match unsafe { cache.as_ref() } {
        None => attach(),
        cache => cache,
    }
}

#[cold]
fn attach<'a>() -> Option<&'a ThreadCache> {
    let cache = KEEPER.try_with(|keeper| {
        let cache = Arc::new(ThreadCache::new());
        let address = Arc::as_ptr(&cache);
        lock(&THREADS).caches.push(Arc::clone(&cache));
        keeper.0.replace(Some(cache));
        CURRENT.set(address);
        address
    });
    // SAFETY: as in `current`.
    unsafe { cache.ok()?.as_ref() }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(cache) = self.0.take() else { return };
        CURRENT.set(null());
        for class in SlotClass::ALL {
            cache.magazine(class).empty();
        }
        let mut threads = lock(&THREADS);
        cache.add_copies_to(threads.copies_of_ended.get_or_insert_default());
        threads.caches.retain(|other| !Arc::ptr_eq(other, &cache));
    }
}

/// Slots of a pool that threads keep for later.
pub(super) fn held(pool: &Pool) -> usize {
    let threads = lock(&THREADS);
    let magazines = threads.caches.iter().map(|cache| cache.magazine(pool.class()));
    magazines
        .filter(|magazine| std::ptr::eq(magazine.pool, pool))
        .map(|magazine| magazine.len.load(Ordering::Relaxed))
        .sum()
}

pub(super) fn count_copies(cause: CopyCause, packets: u64) {
    match current().and_then(|cache| cache.copies.get(cause as usize)) {
        // One writer, so no read-modify-write is needed.
        Some(count) => {
            count.store(count.load(Ordering::Relaxed).wrapping_add(packets), Ordering::Relaxed);
        }
        None => lock(&THREADS).copies_of_ended.get_or_insert_default().add(cause, packets),
    }
}

pub(super) fn copies() -> Copies {
    let threads = lock(&THREADS);
    let mut sum = threads.copies_of_ended.unwrap_or_default();
    threads.caches.iter().for_each(|cache| cache.add_copies_to(&mut sum));
    sum
}
