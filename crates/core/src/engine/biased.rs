//! A mutex that costs nothing for the thread that uses it most.
//!
//! A device's queue belongs to one thread, and other threads look at it once in a while: its thread receives
//! a million bursts a second, and a reader asks for its counters once a second. With a mutex the thread would
//! pay for that with a locked instruction per burst, which waits until the driver's latest stores into the
//! packets have left the store buffer. That wait costs more than the instruction itself.
//!
//! A biased lock (Russell and Detlefs, OOPSLA'06) reverses the cost. One context, the *keeper*, announces
//! with a plain store that it is inside, then checks with a plain load whether it is still the keeper. Any
//! other context locks a mutex, removes the keeper, and then makes the kernel run a memory barrier on every
//! core that runs a thread of this process (`membarrier(2)`, private expedited). After that, either the
//! keeper's store is visible here, and the context waits until the keeper is out, or the keeper's load sees
//! that it has been removed. That costs microseconds, and the keeper pays nothing.
//!
//! If the kernel has no such barrier, there is no keeper, and only the mutex is used.

#![allow(unsafe_code, reason = "the value is reached by two ways that exclude each other")]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::{OnceLock, PoisonError, TryLockError};

use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Mutex, MutexGuard, hint, thread};

/// A value that one thread at a time can access; access is cheapest for the thread that does it most often.
///
/// The first context that [locks](Self::lock) it becomes its keeper. When another context locks it, because
/// the task has moved or threads share the value, there is no keeper until one context has been alone for a
/// while. [Visits](Self::visit), which need no context, leave the keeper in place.
///
/// Like [`Mutex`], it must not be locked again by a thread that is already inside: that deadlocks.
#[repr(align(128))]
pub struct BiasedMutex<T> {
    /// The stall of the keeper, one of `inner.stalls`; null when there is none or another context is inside.
    keeper: AtomicPtr<Stall>,
    /// For every context except the keeper.
    gate: Mutex<Gate>,
    value: UnsafeCell<T>,
}

/// Where a context that is or was the keeper announces that it is inside. Each has its own, so that a context
/// that does not yet know that it has been removed disturbs no other.
struct Stall {
    owner: u64,
    inside: AtomicBool,
}

/// State of the contexts that entered through the gate.
struct Gate {
    /// One for each context that was ever the keeper. Boxed and never removed, because `keeper` points to
    /// them.
    #[expect(clippy::vec_box, reason = "pointers to them outlive the vector's growth")]
    stalls: Vec<Box<Stall>>,
    /// The last context, and how many times in a row it came.
    last: u64,
    times: u32,
    /// How many times in a row a context must come to become the keeper. It grows each time that the bias was
    /// wrong.
    patience: u32,
}

/// How many times in a row a context must come before it becomes the keeper again.
const PATIENCE: u32 = 64;
/// The upper limit: a barrier of a few microseconds in this many visits is negligible.
const MOST_PATIENCE: u32 = 4096;

// SAFETY: one holder at a time gets at the value, as with `Mutex`.
unsafe impl<T: Send> Sync for BiasedMutex<T> {}

impl<T> BiasedMutex<T> {
    /// A value without a keeper.
    pub fn new(value: T) -> Self {
        let gate = Gate { stalls: Vec::new(), last: 0, times: 0, patience: 0 };
        Self {
            keeper: AtomicPtr::new(ptr::null_mut()),
            gate: Mutex::new(gate),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks the value. Waits until no other thread is inside.
    #[inline]
    pub fn lock(&self, by: &impl Identified) -> BiasedGuard<'_, T> {
        let identity = by.identity();
        match self.enter_as_keeper(identity) {
            Some(kept) => kept.into(),
            None => self.lock_gate(identity),
        }
    }

    /// Calls `f` on the value once no other thread is inside. For hot paths, where a guard that may be of
    /// either kind costs more than the keeper's entry and exit.
    #[inline(always)]
    pub fn with<C: Identified, R>(&self, cx: &mut C, f: impl FnOnce(&mut C, &mut T) -> R) -> R {
        match self.enter_as_keeper(cx.identity()) {
            Some(mut kept) => f(cx, kept.value()),
            None => self.with_gate(cx, f),
        }
    }

    /// Like [`with`](Self::with), unless another thread is inside.
    #[inline(always)]
    pub fn try_with<R>(&self, by: &impl Identified, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        match self.enter_as_keeper(by.identity()) {
            Some(mut kept) => Some(f(kept.value())),
            None => self.try_with_gate(by.identity(), f),
        }
    }

    /// Like [`lock`](Self::lock), but does not wait for others that entered through the gate. It waits for
    /// the keeper, unless that is the caller.
    #[inline]
    pub fn try_lock(&self, by: &impl Identified) -> Option<BiasedGuard<'_, T>> {
        let identity = by.identity();
        match self.enter_as_keeper(identity) {
            Some(kept) => Some(kept.into()),
            None => self.try_gate(identity),
        }
    }

    /// Locks the value without a context, for example in handlers. Waits until no other thread is inside. The
    /// keeper stays the keeper.
    pub fn visit(&self) -> BiasedGuard<'_, T> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = self.keeper.load(Ordering::Relaxed);
        self.enter_by(None, gate, keeper)
    }

    /// Like [`visit`](Self::visit), unless another thread is inside.
    pub fn try_visit(&self) -> Option<BiasedGuard<'_, T>> {
        let gate = self.try_open()?;
        let keeper = self.keeper.load(Ordering::Relaxed);
        // SAFETY: null, or a stall, which lives as long as the mutex.
        if let Some(stall) = unsafe { keeper.as_ref() } {
            self.dislodge(None, stall);
            if stall.inside.load(Ordering::Acquire) {
                // It did not notice, or waits at the gate.
                self.keeper.store(keeper, Ordering::Release);
                return None;
            }
        }
        let way = Way::Gate { next: keeper, _held: gate };
        Some(BiasedGuard { mutex: self, way, here: PhantomData })
    }

    #[cold]
    #[inline(never)]
    fn with_gate<C: Identified, R>(&self, cx: &mut C, f: impl FnOnce(&mut C, &mut T) -> R) -> R {
        let mut guard = self.lock_gate(cx.identity());
        f(cx, &mut guard)
    }

    #[cold]
    #[inline(never)]
    fn try_with_gate<R>(&self, identity: &Identity, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.try_gate(identity).map(|mut guard| f(&mut guard))
    }

    /// The keeper's entry: no locked instruction, and no write to a line that others write to.
    #[inline(always)]
    fn enter_as_keeper(&self, identity: &Identity) -> Option<Kept<'_, T>> {
        let stall = self.keeper.load(Ordering::Acquire);
        // SAFETY: null, or a stall, which lives as long as the mutex.
        let own = unsafe { stall.as_ref() }.filter(|stall| stall.owner == identity.number)?;
        // Its owner alone writes it.
        if own.inside.load(Ordering::Relaxed) {
            return None;
        }
        own.inside.store(true, Ordering::Relaxed);
        // The processor may carry out the load below before the store; `take_place` has a barrier for both.
        compiler_fence(Ordering::SeqCst);
        if self.keeper.load(Ordering::Acquire) != stall {
            own.inside.store(false, Ordering::Release);
            return None;
        }
        Some(Kept { mutex: self, stall: own, here: PhantomData })
    }

    #[cold]
    fn lock_gate(&self, identity: &Identity) -> BiasedGuard<'_, T> {
        self.enter_as(identity, self.gate.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_open(&self) -> Option<MutexGuard<'_, Gate>> {
        match self.gate.try_lock() {
            Ok(gate) => Some(gate),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn try_gate(&self, identity: &Identity) -> Option<BiasedGuard<'_, T>> {
        let gate = self.try_open()?;
        let own = gate.stalls.iter().find(|stall| stall.owner == identity.number);
        // Its owner alone writes it.
        let free = !own.is_some_and(|stall| stall.inside.load(Ordering::Relaxed));
        free.then(|| self.enter_as(identity, gate))
    }

    /// Enters through the gate, and returns the keeper afterwards.
    #[cold]
    fn enter_as<'a>(
        &'a self,
        identity: &Identity,
        mut gate: MutexGuard<'a, Gate>,
    ) -> BiasedGuard<'a, T> {
        let keeper = self.keeper.load(Ordering::Relaxed);
        // SAFETY: null, or a stall, which lives as long as the mutex.
        let next = match unsafe { keeper.as_ref() } {
            Some(stall) if stall.owner == identity.number => keeper,
            Some(_) => {
                gate.bias_was_wrong(identity);
                ptr::null_mut()
            }
            None => gate.next_keeper(identity),
        };
        self.enter_by(Some(identity), gate, next)
    }

    fn enter_by<'a>(
        &'a self,
        identity: Option<&Identity>,
        gate: MutexGuard<'a, Gate>,
        next: *mut Stall,
    ) -> BiasedGuard<'a, T> {
        self.take_place(identity);
        BiasedGuard { mutex: self, way: Way::Gate { next, _held: gate }, here: PhantomData }
    }

    /// Removes the keeper and waits until it is out. Requires the gate.
    fn take_place(&self, identity: Option<&Identity>) {
        // The gate's holder alone writes it.
        let stall = self.keeper.load(Ordering::Relaxed);
        // SAFETY: null, or a stall, which lives as long as the mutex.
        let Some(keeper) = (unsafe { stall.as_ref() }) else { return };
        self.dislodge(identity, keeper);
        let mut rounds = 0u32;
        while keeper.inside.load(Ordering::Acquire) {
            rounds = rounds.saturating_add(1);
            match rounds {
                0..1000 => hint::spin_loop(),
                // Its thread may wait for this core.
                _ => thread::yield_now(),
            }
        }
    }

    /// Removes the keeper: from now on either it is seen to be inside, or it does not enter. Requires the
    /// gate.
    fn dislodge(&self, identity: Option<&Identity>, keeper: &Stall) {
        // The barrier orders it.
        self.keeper.store(ptr::null_mut(), Ordering::Relaxed);
        // One's own stores and loads are seen in order.
        if identity.is_none_or(|own| own.number != keeper.owner) {
            barrier::everywhere();
        }
    }

    /// The value, when no other thread can access it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Gate {
    /// Another context than the keeper has entered.
    fn bias_was_wrong(&mut self, by: &Identity) {
        self.patience = (self.patience * 2).clamp(PATIENCE, MOST_PATIENCE);
        (self.last, self.times) = (by.number, 1);
    }

    /// A context has entered, and there is no keeper.
    fn next_keeper(&mut self, identity: &Identity) -> *mut Stall {
        if self.last != identity.number {
            (self.last, self.times) = (identity.number, 0);
        }
        self.times = self.times.saturating_add(1);
        if self.times <= self.patience || !barrier::is_there() {
            return ptr::null_mut();
        }
        let at = self.stalls.iter().position(|stall| stall.owner == identity.number);
        let at = at.unwrap_or_else(|| {
            let inside = AtomicBool::new(false);
            self.stalls.push(Box::new(Stall { owner: identity.number, inside }));
            self.stalls.len() - 1
        });
        self.stalls.get_mut(at).map_or(ptr::null_mut(), |stall| &raw mut **stall)
    }
}

impl<T: fmt::Debug> fmt::Debug for BiasedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedMutex").finish_non_exhaustive()
    }
}

/// The keeper is inside until this is dropped.
struct Kept<'a, T> {
    mutex: &'a BiasedMutex<T>,
    stall: &'a Stall,
    /// Like that of a guard.
    here: PhantomData<*const ()>,
}

impl<T> Kept<'_, T> {
    #[inline(always)]
    fn value(&mut self) -> &mut T {
        // SAFETY: while the keeper is inside nobody else is (see the module), and this is borrowed alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Kept<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.stall.inside.store(false, Ordering::Release);
    }
}

impl<'a, T> From<Kept<'a, T>> for BiasedGuard<'a, T> {
    #[inline(always)]
    fn from(kept: Kept<'a, T>) -> Self {
        let guard = Self { mutex: kept.mutex, way: Way::Kept(kept.stall), here: PhantomData };
        // It stays inside.
        std::mem::forget(kept);
        guard
    }
}

/// Access to the value of a [`BiasedMutex`], until this is dropped.
pub struct BiasedGuard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    way: Way<'a>,
    /// It stays on its thread, because the next user of the keeper's stall is its context.
    here: PhantomData<*const ()>,
}

/// How a guard's holder entered.
enum Way<'a> {
    Kept(&'a Stall),
    /// With the keeper to set afterwards.
    Gate {
        next: *mut Stall,
        _held: MutexGuard<'a, Gate>,
    },
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: while a guard exists nobody else gets one (see the module).
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match &self.way {
            Way::Kept(stall) => stall.inside.store(false, Ordering::Release),
            // The gate opens after that.
            Way::Gate { next, .. } => self.mutex.keeper.store(*next, Ordering::Release),
        }
    }
}

/// The identity of a user of a [`BiasedMutex`]: a context, or an object that one thread at a time uses, such
/// as a device's queue. No two have the same number, and only one thread at a time holds a reference to one,
/// so the keeper's stores are all in one order.
#[derive(Debug)]
pub struct Identity {
    number: u64,
    /// Must not be shared between threads.
    alone: PhantomData<Cell<()>>,
}

impl Identity {
    /// A new identity.
    #[expect(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        use std::sync::atomic::AtomicU64;

        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), alone: PhantomData }
    }
}

/// What has an [`Identity`].
pub trait Identified {
    /// Its own, always the same.
    fn identity(&self) -> &Identity;
}

impl Identified for Identity {
    #[inline(always)]
    fn identity(&self) -> &Self {
        self
    }
}

/// The barrier that the kernel runs on other threads' cores.
mod barrier {
    use rustix::thread::{MembarrierCommand, membarrier};

    use super::OnceLock;

    /// Whether the kernel has it. The first call registers the process.
    pub(super) fn is_there() -> bool {
        static THERE: OnceLock<bool> = OnceLock::new();
        *THERE.get_or_init(|| {
            !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        })
    }

    /// Makes every thread of the process pass a full memory barrier before this returns. Call it only after
    /// checking that it [is there](is_there).
    pub(super) fn everywhere() {
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            // The kernel says no to a registered process only when somebody has forbidden the call since, and
            // then nobody can tell any more who is inside: to go on would be to corrupt a device's queue.
            eprintln!("millrace: membarrier(2) worked at the start and is now refused");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Two halves that are changed one after the other: if they differ, the reader entered too early.
    #[derive(Default)]
    struct Pair(u64, u64);

    impl Pair {
        fn add(&mut self) {
            assert_eq!(self.0, self.1);
            self.0 += 1;
            std::hint::black_box(&mut *self);
            self.1 += 1;
        }
    }

    fn keeps<T>(mutex: &BiasedMutex<T>, identity: &Identity) -> bool {
        mutex.enter_as_keeper(identity).is_some()
    }

    #[test]
    fn the_first_context_keeps_the_value_and_visitors_do_not_change_that() {
        let (mutex, own) = (BiasedMutex::new(0), Identity::new());
        *mutex.lock(&own) += 1;
        assert_eq!(keeps(&mutex, &own), barrier::is_there());
        *mutex.visit() += 1;
        assert_eq!(keeps(&mutex, &own), barrier::is_there());
        assert_eq!(*mutex.lock(&own), 2);
    }

    #[test]
    fn who_is_inside_is_not_let_in_again() {
        let (mutex, own, other) = (BiasedMutex::new(()), Identity::new(), Identity::new());
        for round in 0..3 {
            let guard = mutex.try_lock(&own).unwrap();
            assert!(mutex.try_lock(&own).is_none(), "round {round}");
            drop(guard);
        }
        let guard = mutex.visit();
        assert!(mutex.try_lock(&own).is_none() && mutex.try_lock(&other).is_none());
        drop(guard);
        assert!(mutex.try_lock(&own).is_some());
    }

    #[test]
    fn a_visit_that_finds_the_keeper_inside_leaves_it_its_place() {
        let (mutex, own) = (BiasedMutex::new(0), Identity::new());
        drop(mutex.lock(&own));
        let guard = mutex.lock(&own);
        assert!(mutex.try_visit().is_none());
        drop(guard);
        assert_eq!(keeps(&mutex, &own), barrier::is_there());
        *mutex.try_visit().unwrap() += 1;
        assert_eq!(keeps(&mutex, &own), barrier::is_there());
        let visit = mutex.visit();
        assert!(mutex.try_visit().is_none() && mutex.try_lock(&own).is_none());
        assert_eq!(*visit, 1);
    }

    #[test]
    fn a_context_that_stays_takes_over_from_one_that_went() {
        let (mutex, old, new) = (BiasedMutex::new(()), Identity::new(), Identity::new());
        drop(mutex.lock(&old));
        for _ in 0..=PATIENCE {
            assert!(!keeps(&mutex, &new));
            drop(mutex.lock(&new));
        }
        assert_eq!(keeps(&mutex, &new), barrier::is_there());
        assert!(!keeps(&mutex, &old));
        // Going back takes longer: the bias was wrong once more.
        for _ in 0..=PATIENCE {
            drop(mutex.lock(&old));
        }
        assert!(!keeps(&mutex, &old));
        for _ in 0..=PATIENCE {
            drop(mutex.lock(&old));
        }
        assert_eq!(keeps(&mutex, &old), barrier::is_there());
    }

    #[test]
    fn contexts_that_take_turns_have_no_keeper() {
        let (mutex, one, two) = (BiasedMutex::new(()), Identity::new(), Identity::new());
        for _ in 0..3 * MOST_PATIENCE {
            drop(mutex.lock(&one));
            drop(mutex.lock(&two));
        }
        assert!(!keeps(&mutex, &one) && !keeps(&mutex, &two));
    }

    #[test]
    fn nobody_sees_a_half_done_change() {
        const CHANGES: u64 = if cfg!(miri) { 50 } else { 100_000 };
        let mutex = BiasedMutex::new(Pair::default());
        let visits = AtomicUsize::new(0);
        let done = AtomicBool::new(false);
        // One thread that keeps the value, one that comes from time to time and then again often, a visitor.
        let added = thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                let own = Identity::new();
                (0..CHANGES).for_each(|_| mutex.lock(&own).add());
                CHANGES
            });
            let other = scope.spawn(|| {
                let own = Identity::new();
                let mut added = 0;
                for round in 0..CHANGES / 50 {
                    let often = if round % 16 == 0 { 200 } else { 1 };
                    for _ in 0..often {
                        if let Some(mut pair) = mutex.try_lock(&own) {
                            pair.add();
                            added += 1;
                        }
                    }
                    thread::yield_now();
                }
                added
            });
            let visitor = scope.spawn(|| {
                let mut added = 0;
                while !done.load(Ordering::Relaxed) {
                    mutex.visit().add();
                    added += 1;
                    if let Some(mut pair) = mutex.try_visit() {
                        pair.add();
                        added += 1;
                    }
                    visits.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
                added
            });
            let added = keeper.join().unwrap() + other.join().unwrap();
            done.store(true, Ordering::Relaxed);
            added + visitor.join().unwrap()
        });
        let pair = mutex.visit();
        assert_eq!((pair.0, pair.1), (added, added));
        assert!(visits.into_inner() > 0);
    }
}
