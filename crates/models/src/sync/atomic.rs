//! Atomics that the checker watches.
//!
//! The checker treats sequentially consistent accesses as if they were acquire and release, and would report errors
//! where there are none. So here there is a sequentially consistent fence between such a change and the next such load of
//! the same thread: what most algorithms need them for. That is a little stronger than what the language promises, as
//! accesses before the change are ordered, too. Nothing orders two such loads.
//!
//! The checker (loom 0.7) tries two steps in both orders only if the later one depends on the last step before it. It takes
//! two loads for independent, and so misses that a store depends on another thread's load when its own thread has
//! loaded in between. So here each access is a store, too, to a `Turn` that nobody reads.

use std::panic::Location;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use loom::sync::atomic as checked;

pub use std::sync::atomic::Ordering;

use super::sites;

#[track_caller]
fn order(asked: Ordering) -> Ordering {
    sites::order(asked, Location::caller()).unwrap_or(Relaxed)
}

/// An atomic fence.
#[track_caller]
pub fn fence(asked: Ordering) {
    if let Some(order) = sites::order(asked, Location::caller()) {
        checked::fence(order);
    }
}

loom::lazy_static! {
    /// The order of light fences and of barriers.
    static ref BARRIERS: checked::AtomicUsize = checked::AtomicUsize::new(0);
}

/// A fence for the compiler, with a [barrier](barrier_everywhere) of the kernel's as its counterpart. One of the two is first,
/// and the other one sees all that was done before it. What this does not show: two such fences without a barrier between
/// them order nothing, but do so here.
#[track_caller]
pub fn compiler_fence(asked: Ordering) {
    if sites::order(asked, Location::caller()).is_some() {
        BARRIERS.fetch_add(1, AcqRel);
    }
}

/// A memory barrier on every core that runs a thread of the process.
#[track_caller]
pub fn barrier_everywhere() {
    if sites::order(SeqCst, Location::caller()).is_some() {
        checked::fence(SeqCst);
        BARRIERS.fetch_add(1, AcqRel);
        checked::fence(SeqCst);
    }
}

#[track_caller]
fn loads<R>(asked: Ordering, turn: &Turn, load: impl FnOnce(Ordering) -> R) -> R {
    let order = order(asked);
    if order == SeqCst && sites::has_changed() {
        checked::fence(SeqCst);
    }
    turn.take();
    load(if order == SeqCst { Acquire } else { order })
}

#[track_caller]
fn stores(asked: Ordering, turn: &Turn, store: impl FnOnce(Ordering)) {
    let order = order(asked);
    turn.take();
    store(if order == SeqCst { Release } else { order });
    if order == SeqCst {
        sites::note_change();
    }
}

#[track_caller]
fn changes<R>(asked: Ordering, turn: &Turn, change: impl FnOnce(Ordering) -> R) -> R {
    let order = order(asked);
    if order == SeqCst && sites::has_changed() {
        checked::fence(SeqCst);
    }
    turn.take();
    let done = change(if order == SeqCst { AcqRel } else { order });
    if order == SeqCst {
        sites::note_change();
    }
    done
}

/// The order of the load of a change that fails.
fn of_failure(order: Ordering) -> Ordering {
    match order {
        AcqRel | Acquire => Acquire,
        _ => Relaxed,
    }
}

/// Makes all accesses to an atomic depend on each other, and orders nothing.
#[derive(Debug)]
struct Turn(checked::AtomicBool);

impl Turn {
    fn new() -> Self {
        Self(checked::AtomicBool::new(false))
    }

    fn take(&self) {
        self.0.store(true, Relaxed);
    }
}

macro_rules! atomics {
    ($($name:ident: $type:ty, { $($more:tt)* })*) => {$(
        /// Like the standard library's.
        #[derive(Debug)]
        pub struct $name(checked::$name, Turn);

        #[allow(missing_docs, reason = "as in the standard library")]
        impl $name {
            #[track_caller]
            pub fn new(value: $type) -> Self {
                Self(checked::$name::new(value), Turn::new())
            }

            #[track_caller]
            pub fn load(&self, asked: Ordering) -> $type {
                loads(asked, &self.1, |order| self.0.load(order))
            }

            #[track_caller]
            pub fn store(&self, value: $type, asked: Ordering) {
                stores(asked, &self.1, |order| self.0.store(value, order));
            }

            #[track_caller]
            pub fn swap(&self, value: $type, asked: Ordering) -> $type {
                changes(asked, &self.1, |order| self.0.swap(value, order))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                from: $type,
                to: $type,
                asked: Ordering,
                _: Ordering,
            ) -> Result<$type, $type> {
                changes(asked, &self.1, |order| self.0.compare_exchange(from, to, order, of_failure(order)))
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                asked: Ordering,
                _: Ordering,
                mut to: impl FnMut($type) -> Option<$type>,
            ) -> Result<$type, $type> {
                changes(asked, &self.1, |order| {
                    let mut from = self.0.load(of_failure(order));
                    while let Some(next) = to(from) {
                        match self.0.compare_exchange(from, next, order, of_failure(order)) {
                            Ok(was) => return Ok(was),
                            Err(is) => from = is,
                        }
                    }
                    Err(from)
                })
            }

            $($more)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$type>::default())
            }
        }

        impl From<$type> for $name {
            fn from(value: $type) -> Self {
                Self::new(value)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($name:ident: $type:ty)*) => {
        atomics! {$(
            $name: $type, {
                #[track_caller]
                pub fn fetch_add(&self, more: $type, asked: Ordering) -> $type {
                    changes(asked, &self.1, |order| self.0.fetch_add(more, order))
                }

                #[track_caller]
                pub fn fetch_min(&self, other: $type, asked: Ordering) -> $type {
                    changes(asked, &self.1, |order| self.0.fetch_min(other, order))
                }

                #[track_caller]
                pub fn fetch_sub(&self, less: $type, asked: Ordering) -> $type {
                    changes(asked, &self.1, |order| self.0.fetch_sub(less, order))
                }

                #[track_caller]
                pub fn fetch_and(&self, mask: $type, asked: Ordering) -> $type {
                    changes(asked, &self.1, |order| self.0.fetch_and(mask, order))
                }

                #[track_caller]
                pub fn fetch_or(&self, bits: $type, asked: Ordering) -> $type {
                    changes(asked, &self.1, |order| self.0.fetch_or(bits, order))
                }
            }
        )*}
    };
}

numbers! {
    AtomicU8: u8
    AtomicU32: u32
    AtomicU64: u64
    AtomicI64: i64
    AtomicUsize: usize
}

atomics! {
    AtomicBool: bool, {}
}

/// Like the standard library's.
#[derive(Debug)]
pub struct AtomicPtr<T>(checked::AtomicPtr<T>, Turn);

#[allow(missing_docs, reason = "as in the standard library")]
impl<T> AtomicPtr<T> {
    #[track_caller]
    pub fn new(value: *mut T) -> Self {
        Self(checked::AtomicPtr::new(value), Turn::new())
    }

    #[track_caller]
    pub fn load(&self, asked: Ordering) -> *mut T {
        loads(asked, &self.1, |order| self.0.load(order))
    }

    #[track_caller]
    pub fn store(&self, value: *mut T, asked: Ordering) {
        stores(asked, &self.1, |order| self.0.store(value, order));
    }
}
