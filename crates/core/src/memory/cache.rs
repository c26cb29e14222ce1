//! Each thread's own free slots, which make a packet cost only a few instructions.
//!
//! A thread keeps up to [`MAGAZINE`] free slots of each class in a stack. Allocating a packet pops, freeing
//! one pushes. Only an empty or a full stack goes to the pool, for half a stack at a time. The most recently
//! freed slot is the next one used, so its lines are still in the cache. When a thread ends, its slots return
//! to the pools.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::arena::{Arena, MAGAZINE, Pool};
use super::cause::{Copies, CopyCause};
use super::class::SlotClass;
use super::descriptor::{DESCRIPTOR_LEN, Descriptor, FLAG_EXTERNAL, LetGo, Slot};
use super::{homes, numa};
use crate::Lock;

/// The maximum number of slots of one class of another node that a thread keeps before it returns them.
const FOREIGN: usize = 64;

/// Allocates a slot of a class. `None`, counted, when the arena has none left.
#[inline]
pub(super) fn take(class: SlotClass) -> Option<Slot> {
    if let Some(cache) = current()
        && let Some(slot) = cache.magazine(class).pop()
    {
        return Some(slot);
    }
    take_slowly(class)
}

/// Allocates a standard slot if the thread has a free one.
#[inline(always)]
pub(super) fn take_at_hand() -> Option<Slot> {
    at_hand()?.standard.pop()
}

/// Allocates a standard slot of a node, however far away. `None`, counted, when it has none left.
pub(super) fn take_of_node(node: usize) -> Option<Slot> {
    let node = Arena::get().known_node(node);
    let pool = Arena::get().pool(node, SlotClass::Standard)?;
    // Those that wait on their way home are at hand.
    let magazine = current().and_then(|cache| cache.magazine_of(pool));
    let mut slot = magazine.and_then(Magazine::pop);
    if slot.is_none() {
        match magazine {
            Some(magazine) => {
                pool.take(magazine.bulk(), |slot| magazine.push(slot));
                slot = magazine.pop();
            }
            None => {
                pool.take(1, |one| slot = Some(one));
            }
        }
    }
    if slot.is_none() {
        pool.count_exhausted();
    }
    slot
}

/// Frees a slot that nothing uses any more.
#[inline]
pub(super) fn give_back(slot: Slot) {
    if let Some(cache) = current() {
        for magazine in [&cache.standard, &cache.shell] {
            if magazine.serves(slot) {
                return magazine.push(slot);
            }
        }
    }
    give_back_slowly(slot);
}

/// Allocates as many standard slots as `to` has room for; returns their number. Counts those that could not
/// be allocated.
pub(super) fn take_standard(to: &mut [MaybeUninit<Slot>]) -> usize {
    let mut taken = 0;
    while let Some(rest) = to.get_mut(taken..).filter(|rest| !rest.is_empty()) {
        taken += current().map_or(0, |cache| cache.standard.pop_run(rest));
        // An empty stack is filled by taking one.
        match to.get_mut(taken) {
            Some(entry) => match take(SlotClass::Standard) {
                Some(slot) => entry.write(slot),
                None => break,
            },
            None => break,
        };
        taken += 1;
    }
    taken
}

/// Releases many packets' slots, like [`release`] for each, in runs.
#[inline]
pub(super) fn release_all(slots: &[Slot]) {
    let mut rest = slots;
    while !rest.is_empty() {
        let pushed = current().map_or(0, |cache| cache.standard.push_run(rest));
        rest = rest.get(pushed..).unwrap_or_default();
        rest = release_external(rest);
        let Some((first, others)) = rest.split_first() else { return };
        // The stack is full, or this slot is shared or of another kind.
        release(*first);
        rest = others;
    }
}

/// Returns the leading run of slots from a foreign pool to that pool; returns the other slots.
#[inline]
fn release_external(slots: &[Slot]) -> &[Slot] {
    let is_external = |slot: &&Slot| slot.flags() & FLAG_EXTERNAL != 0 && slot.is_sole();
    let run = slots.iter().take_while(is_external).count();
    let (external, others) = slots.split_at_checked(run).unwrap_or_default();
    if let Some(free) = EXTERNAL.get().filter(|_| run > 0) {
        // SAFETY: a slot is a pointer that is not null and nothing else (both wrappers are transparent).
        free(unsafe { &*(std::ptr::from_ref(external) as *const [NonNull<Descriptor>]) });
    }
    others
}

/// A packet is freed: its slot is freed too, unless other packets use its buffer.
#[inline(always)]
pub(super) fn release(slot: Slot) {
    // All that is rare is in one call at the very end, so that this stays a leaf of a dozen instructions.
    if slot.is_sole()
        && let Some(cache) = at_hand()
        && cache.standard.serves(slot)
        && cache.standard.push_at_hand(slot)
    {
        return;
    }
    release_slowly(slot);
}

#[inline(never)]
fn release_slowly(slot: Slot) {
    if slot.is_sole() {
        return give_back(slot);
    }
    let owner = slot.buffer_owner();
    match owner.let_go(homes::tag()) {
        LetGo::Elsewhere(tag) => send_home(slot, owner, tag),
        left => clear_away(slot, owner, left),
    }
}

#[cold]
fn send_home(slot: Slot, owner: Slot, tag: u16) {
    if let Some(left) = homes::post(slot, tag) {
        clear_away(slot, owner, left);
    }
}

/// Frees what is no longer needed after a packet in `slot` released its buffer.
#[inline(always)]
fn clear_away(slot: Slot, owner: Slot, left: LetGo) {
    match left {
        LetGo::Shared if owner != slot => give_back(slot),
        LetGo::Shared | LetGo::Elsewhere(_) => {}
        LetGo::Last => {
            if owner != slot {
                give_back(slot);
            }
            give_back(owner);
        }
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
        // Far memory is slower, but it is no drop.
        for other in Arena::get().pools().iter().filter(|other| other.class() == class) {
            if other.take(1, |slot| first = Some(slot)) > 0 {
                break;
            }
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
            free(&[descriptor]);
        }
        return;
    }
    let Some(pool) = NonNull::new(slot.pool().cast_mut().cast::<Pool>()) else {
        return free_heap(slot);
    };
    // SAFETY: a slot that is neither external nor on the heap names the pool that carved it; pools live as
    // long as the process.
    let pool = unsafe { pool.as_ref() };
    match current().and_then(|cache| cache.magazine_of(pool)) {
        Some(magazine) => magazine.push(slot),
        None => pool.put(std::iter::once(slot)),
    }
}

static EXTERNAL: OnceLock<fn(&[NonNull<Descriptor>])> = OnceLock::new();

/// Registers the function that frees slots of a foreign pool (DPDK's mempools) that nothing uses any more.
/// Only the first call counts; false means that there was one before.
pub fn register_external_release(free: fn(&[NonNull<Descriptor>])) -> bool {
    EXTERNAL.set(free).is_ok()
}

static HEAP_SLOTS: AtomicUsize = AtomicUsize::new(0);

/// Packets on the heap now.
pub(super) fn heap_slots() -> usize {
    HEAP_SLOTS.load(Ordering::Relaxed)
}

fn heap_layout(room: usize) -> Option<Layout> {
    Layout::from_size_align(room.checked_add(DESCRIPTOR_LEN)?, 64).ok()
}

/// A slot on the heap, for packets that no class can hold and for copies that must not fail. `None` only for
/// sizes that no packet can have; running out of memory ends the process, as everywhere in Rust.
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

/// One class's stack of free slots. Only its thread changes it; other threads may read the length.
#[derive(Debug)]
struct Magazine {
    len: AtomicUsize,
    pool: *const Pool,
    /// The maximum number of slots, [`MAGAZINE`] or fewer.
    hold: usize,
    slots: [UnsafeCell<MaybeUninit<Slot>>; MAGAZINE],
}

impl Magazine {
    fn new(pool: Option<&'static Pool>, most: usize) -> Magazine {
        Magazine {
            len: AtomicUsize::new(0),
            pool: pool.map_or(null(), std::ptr::from_ref),
            hold: pool.map_or(0, Pool::hold).min(most),
            slots: [const { UnsafeCell::new(MaybeUninit::uninit()) }; MAGAZINE],
        }
    }

    /// Whether the slot came from the pool that this stack belongs to.
    #[inline(always)]
    fn serves(&self, slot: Slot) -> bool {
        std::ptr::eq(slot.pool(), self.pool.cast())
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

    #[inline]
    fn push(&self, slot: Slot) {
        if !self.push_at_hand(slot) {
            self.spill();
            self.push_at_hand(slot);
        }
    }

    /// Pushes if there is room.
    #[inline(always)]
    fn push_at_hand(&self, slot: Slot) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        if len == self.hold {
            return false;
        }
        // SAFETY: `len` is below `hold`, the number of entries in use, and this thread alone touches them.
        unsafe { (*self.slots.get_unchecked(len).get()).write(slot) };
        self.len.store(len + 1, Ordering::Relaxed);
        true
    }

    /// Moves slots from the top of the stack, as many as there are and `to` has room for. Returns their
    /// number.
    #[inline]
    fn pop_run(&self, to: &mut [MaybeUninit<Slot>]) -> usize {
        let len = self.len.load(Ordering::Relaxed);
        let count = to.len().min(len);
        // SAFETY: entries below `len` are in bounds and initialised, and this thread alone touches them; `to`
        // is another array.
        unsafe {
            let from = self.slots.as_ptr().add(len - count).cast();
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), count);
        }
        self.len.store(len - count, Ordering::Relaxed);
        count
    }

    /// Pushes slots up to the first that is shared or that belongs to another pool, or until the stack is
    /// full. Returns their number.
    #[inline]
    fn push_run(&self, slots: &[Slot]) -> usize {
        let len = self.len.load(Ordering::Relaxed);
        let most = slots.len().min(self.hold - len);
        let mut count = 0;
        while count < most {
            // SAFETY: `count` is below both lengths.
            let slot = unsafe { *slots.get_unchecked(count) };
            if !(slot.is_sole() && self.serves(slot)) {
                break;
            }
            // SAFETY: `len + count` is below `hold`, and this thread alone touches the entries.
            unsafe { (*self.slots.get_unchecked(len + count).get()).write(slot) };
            count += 1;
        }
        self.len.store(len + count, Ordering::Relaxed);
        count
    }

    /// Makes room by returning the older half to the pool.
    #[cold]
    fn spill(&self) {
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

/// A thread's free slots.
#[derive(Debug)]
#[repr(align(128))]
struct ThreadCache {
    standard: Magazine,
    jumbo: Magazine,
    shell: Magazine,
    /// For slots of other nodes on their way back; only allocations for that node take from it.
    foreign: Box<[Magazine]>,
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
        let node = arena.known_node(NODE.get().unwrap_or_else(numa::current_node));
        let own = |class| Magazine::new(arena.pool(node, class), MAGAZINE);
        let foreign = arena.pools().iter().filter(|pool| pool.node() != node);
        ThreadCache {
            standard: own(SlotClass::Standard),
            jumbo: own(SlotClass::Jumbo),
            shell: own(SlotClass::Shell),
            foreign: foreign.map(|pool| Magazine::new(Some(pool), FOREIGN)).collect(),
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

    fn magazines(&self) -> impl Iterator<Item = &Magazine> {
        [&self.standard, &self.jumbo, &self.shell].into_iter().chain(&self.foreign)
    }

    fn magazine_of(&self, pool: &Pool) -> Option<&Magazine> {
        self.magazines().find(|magazine| std::ptr::eq(magazine.pool, pool))
    }

    fn add_copies_to(&self, sum: &mut Copies) {
        for (cause, count) in CopyCause::ALL.into_iter().zip(&self.copies) {
            sum.add(cause, count.load(Ordering::Relaxed));
        }
    }
}

/// The caches of all living threads, and the counts of those that ended.
struct Threads {
    caches: Vec<Arc<ThreadCache>>,
    copies_of_ended: Option<Copies>,
}

static THREADS: Lock<Threads> = Lock::new(Threads { caches: Vec::new(), copies_of_ended: None });

thread_local! {
    /// Fast access to this thread's cache: no destructor, so no check on access.
    static CURRENT: Cell<*const ThreadCache> = const { Cell::new(null()) };
    /// The node that the thread was set to allocate its packets from.
    static NODE: Cell<Option<usize>> = const { Cell::new(None) };
    /// Owns the cache and empties it when the thread ends.
    static KEEPER: Keeper = const { Keeper(RefCell::new(None)) };
}

struct Keeper(RefCell<Option<Arc<ThreadCache>>>);

/// This thread's cache, if it has one already.
#[inline(always)]
fn at_hand<'a>() -> Option<&'a ThreadCache> {
    // SAFETY: not null between `attach` and the keeper's end only, and the keeper owns the cache meanwhile.
    // The reference is not kept beyond the calls of this module.
    unsafe { CURRENT.get().as_ref() }
}

/// This thread's cache; `None` once the thread has begun to end.
#[inline(always)]
fn current<'a>() -> Option<&'a ThreadCache> {
    at_hand().or_else(attach)
}

#[cold]
fn attach<'a>() -> Option<&'a ThreadCache> {
    let cache = KEEPER.try_with(|keeper| {
        let cache = Arc::new(ThreadCache::new());
        let address = Arc::as_ptr(&cache);
        THREADS.lock().caches.push(Arc::clone(&cache));
        keeper.0.replace(Some(cache));
        CURRENT.set(address);
        address
    });
    // SAFETY: as in `at_hand`.
    unsafe { cache.ok()?.as_ref() }
}

/// Makes this thread allocate its packets from a node; the slots that it keeps are returned first.
pub(super) fn use_node(node: usize) {
    NODE.set(Some(node));
    // A thread that is ending has no cache to replace.
    let _ = KEEPER.try_with(Keeper::empty);
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.empty();
    }
}

impl Keeper {
    fn empty(&self) {
        let Some(cache) = self.0.take() else { return };
        CURRENT.set(null());
        cache.magazines().for_each(Magazine::empty);
        let mut threads = THREADS.lock();
        cache.add_copies_to(threads.copies_of_ended.get_or_insert_default());
        threads.caches.retain(|other| !Arc::ptr_eq(other, &cache));
    }
}

/// Slots of a pool that threads keep for later.
pub(super) fn held(pool: &Pool) -> usize {
    let threads = THREADS.lock();
    let magazines = threads.caches.iter().filter_map(|cache| cache.magazine_of(pool));
    magazines.map(|magazine| magazine.len.load(Ordering::Relaxed)).sum()
}

pub(super) fn count_copies(cause: CopyCause, packets: u64) {
    match current().and_then(|cache| cache.copies.get(cause as usize)) {
        // One writer, so no read-modify-write is needed.
        Some(count) => {
            count.store(count.load(Ordering::Relaxed).wrapping_add(packets), Ordering::Relaxed);
        }
        None => THREADS.lock().copies_of_ended.get_or_insert_default().add(cause, packets),
    }
}

pub(super) fn copies() -> Copies {
    let threads = THREADS.lock();
    let mut sum = threads.copies_of_ended.unwrap_or_default();
    threads.caches.iter().for_each(|cache| cache.add_copies_to(&mut sum));
    sum
}
