//! Values that handlers replace as a whole while packets flow, and that packets read at the price of one
//! load.
//!
//! A forwarding thread works in rounds, and keeps no reference from one round to the next. The compiler
//! ensures that, because a reference borrows the [`Context`](crate::Context) or the [`Moment`](crate::Moment) that
//! it came from. So a replaced value can be freed when each thread has begun another round since, or sleeps
//! (quiescent-state-based reclamation; McKenney and Slingwine, PDCS'98; Hart et al., IPDPS'06). Reading needs
//! no locked instruction and no store; a round costs one load and one store.

#![allow(
    unsafe_code,
    reason = "what has been replaced is freed when no thread can see it any more"
)]

use crate::Lock;
use crate::moment::InRound;
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Arc, process_wide};

/// A value that is replaced as a whole.
pub struct Published<T> {
    /// The address of `owner`.
    current: AtomicPtr<T>,
    owner: Lock<Arc<T>>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Creates the first value.
    pub fn new(value: T) -> Self {
        let owner = Arc::new(value);
        Self { current: AtomicPtr::new(Arc::as_ptr(&owner).cast_mut()), owner: owner.into() }
    }

    /// The value, for this round.
    #[inline(always)]
    pub fn get<'a>(&'a self, _at: &'a impl InRound) -> &'a T {
        // SAFETY: the pointer is that of an `Arc` which `owner` holds, or which was retired after this round began
        // and is held until it has ended; the round lasts as long as `at` is borrowed.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The value, for callers outside a round, such as handlers.
    pub fn load(&self) -> Arc<T> {
        self.owner.lock().clone()
    }

    /// Replaces the value. Packets see the new one at once; the old one is freed when no packet can see it
    /// any more.
    pub fn store(&self, value: impl Into<Arc<T>>) {
        self.swap(value);
    }

    /// Replaces the value, and returns the old one. As long as packets may see the old one, the returned
    /// reference is not the only one.
    pub fn swap(&self, value: impl Into<Arc<T>>) -> Arc<T> {
        let mut owner = self.owner.lock();
        self.replace(&mut owner, value.into())
    }

    /// Replaces the value with the result of `f`. No other thread replaces it meanwhile.
    pub fn update(&self, f: impl FnOnce(&T) -> T) {
        let mut owner = self.owner.lock();
        let value = Arc::new(f(&owner));
        self.replace(&mut owner, value);
    }

    fn replace(&self, owner: &mut Arc<T>, value: Arc<T>) -> Arc<T> {
        let old = std::mem::replace(owner, value);
        self.current.store(Arc::as_ptr(owner).cast_mut(), Ordering::Release);
        retire(Box::new(old.clone()));
        old
    }
}

impl<T: Send + Sync + Default + 'static> Default for Published<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Published").field(&self.owner).finish()
    }
}

process_wide! {
    /// How many values the process has retired.
    static RETIRED: AtomicU64 = AtomicU64::new(0);
    /// How many of them wait for threads.
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    static LIMBO: Lock<Vec<(u64, Box<dyn Send>)>> = Lock::new(Vec::new());
    static SEATS: Lock<Vec<Arc<AtomicU64>>> = Lock::new(Vec::new());
}

/// What a thread outside a round has seen.
const ALL: u64 = u64::MAX;

fn retire(value: Box<dyn Send>) {
    // The value has been replaced: who sees this number sees the new one, too.
    let number = RETIRED.fetch_add(1, Ordering::Release) + 1;
    WAITING.fetch_add(1, Ordering::Relaxed);
    LIMBO.lock().push((number, value));
    free_unseen();
}

/// Frees the values that no thread can see any more.
#[cold]
fn free_unseen() {
    let mut limbo = LIMBO.lock();
    // Of what waits here each value had been replaced before this fence, by whichever thread, for the lock orders that:
    // who wakes is seen below, or sees the new ones. What is retired from now on may be held by a thread that sleeps
    // when the seats are looked at, and has woken since.
    fence(Ordering::SeqCst);
    let seen = SEATS.lock().iter().map(|seat| seat.load(Ordering::Acquire)).min().unwrap_or(ALL);
    let freed: Vec<_> = limbo.extract_if(.., |(number, _)| *number <= seen).collect();
    // A value may replace others when it goes.
    drop(limbo);
    WAITING.fetch_sub(freed.len(), Ordering::Relaxed);
}

/// One context's registration as a reader of published values.
pub(crate) struct Seat {
    seen: Arc<AtomicU64>,
    in_round: bool,
}

impl Seat {
    pub(crate) fn new() -> Self {
        let seen = Arc::new(AtomicU64::new(ALL));
        SEATS.lock().push(seen.clone());
        Self { seen, in_round: false }
    }

    /// A round begins: nothing is kept from the previous one.
    #[inline]
    pub(crate) fn begin_round(&mut self) {
        self.seen.store(RETIRED.load(Ordering::Acquire), Ordering::Release);
        if !self.in_round {
            self.in_round = true;
            // Whoever frees something sees that this thread is here again, or this thread sees what is new.
            fence(Ordering::SeqCst);
        }
        if WAITING.load(Ordering::Relaxed) != 0 {
            free_unseen();
        }
    }

    /// There will be no round for a while.
    pub(crate) fn leave(&mut self) {
        self.in_round = false;
        self.seen.store(ALL, Ordering::Release);
        if WAITING.load(Ordering::Relaxed) != 0 {
            free_unseen();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        SEATS.lock().retain(|seat| !Arc::ptr_eq(seat, &self.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    impl Published<Token> {
        fn peek(&self) -> &Token {
            // SAFETY: as in `get`; the tests hold a seat in a round meanwhile.
            unsafe { &*self.current.load(Ordering::Acquire) }
        }
    }

    /// Records when it is freed, and changes its value then.
    struct Token(Arc<AtomicUsize>, u64);
    const SOUND: u64 = 0x5eed;

    impl Drop for Token {
        fn drop(&mut self) {
            self.1 = 0;
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_value_goes_when_each_thread_has_begun_another_round_or_sleeps() {
        let freed = Arc::new(AtomicUsize::new(0));
        let token = || Token(freed.clone(), SOUND);
        let (mut one, mut other) = (Seat::new(), Seat::new());
        let value = Published::new(token());
        one.begin_round();
        other.begin_round();
        value.store(token());
        one.begin_round();
        assert_eq!(freed.load(Ordering::SeqCst), 0, "the other may look at it");
        other.leave();
        assert_eq!(freed.load(Ordering::SeqCst), 1);
        value.store(token());
        assert_eq!(freed.load(Ordering::SeqCst), 1, "the one may look at it");
        drop(one);
        value.store(token());
        assert_eq!(freed.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn who_wakes_while_another_looks_for_what_can_go_keeps_what_it_sees() {
        let freed = Arc::new(AtomicUsize::new(0));
        let seat = Seat::new();
        std::thread::scope(|scope| {
            let mut limbo = LIMBO.lock();
            let other = scope.spawn(free_unseen);
            // The other one has come to the lock.
            std::thread::sleep(std::time::Duration::from_millis(50));
            seat.seen.store(RETIRED.load(Ordering::SeqCst), Ordering::SeqCst);
            let number = RETIRED.fetch_add(1, Ordering::SeqCst) + 1;
            WAITING.fetch_add(1, Ordering::Relaxed);
            limbo.push((number, Box::new(Token(freed.clone(), SOUND))));
            drop(limbo);
            other.join().unwrap();
        });
        assert_eq!(freed.load(Ordering::SeqCst), 0, "the seat's thread may look at it");
        drop(seat);
    }

    #[test]
    fn a_value_may_replace_others_when_it_goes() {
        struct Chain(Arc<Published<u32>>);
        impl Drop for Chain {
            fn drop(&mut self) {
                self.0.store(7u32);
            }
        }
        let last = Arc::new(Published::new(1u32));
        let first = Published::new(Chain(last.clone()));
        first.store(Chain(last.clone()));
        // Another test's thread may be in a round.
        while *last.load() != 7 {
            std::thread::yield_now();
            free_unseen();
        }
    }

    #[test]
    fn threads_that_read_see_no_freed_value() {
        const STORES: usize = if cfg!(miri) { 50 } else { 20_000 };
        let freed = Arc::new(AtomicUsize::new(0));
        let value = Published::new(Token(freed.clone(), SOUND));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (value, ended) = (&value, &ended);
                scope.spawn(move || {
                    let mut seat = Seat::new();
                    let mut round = 0u32;
                    while !ended.load(Ordering::Relaxed) {
                        seat.begin_round();
                        for _ in 0..20 {
                            let token = value.peek();
                            std::hint::spin_loop();
                            assert_eq!(token.1, SOUND);
                        }
                        round += 1;
                        if round % 7 == thread {
                            seat.leave();
                        }
                    }
                });
            }
            for _ in 0..STORES {
                value.store(Token(freed.clone(), SOUND));
            }
            ended.store(true, Ordering::Relaxed);
        });
        value.store(Token(freed.clone(), SOUND));
        assert!(freed.load(Ordering::SeqCst) > STORES / 2);
    }
}
