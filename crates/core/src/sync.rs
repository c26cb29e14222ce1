//! What threads share data with: a mutex that outlives panics, and the standard library's atomics, cells and locks.
//!
//! Code whose correctness rests on the order of memory accesses uses the names of this module. So `crates/models` can
//! compile the same files with the types of a model checker in their place, and try every order.

use std::sync::{PoisonError, TryLockError};

#[doc(hidden)]
pub use std::sync::{Arc, Mutex, MutexGuard, RwLock, atomic};
#[doc(hidden)]
pub use std::{cell, hint, thread};

/// Whether a model checker runs the code: then tables are small, so that all orders can be tried.
#[doc(hidden)]
pub const IS_MODEL: bool = false;

/// Statics of the process. A model makes them anew for each execution.
macro_rules! process_wide {
    ($($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$about])* static $name: $type = $value;)*
    };
}
pub(crate) use process_wide;

/// A mutex that stays usable when a thread panics while it holds the lock. It protects counts, tables and
/// packets, each of which is consistent between any two statements, and a panic of one thread must not spread
/// to all others.
#[derive(Debug, Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T: ?Sized> Lock<T> {
    /// Locks the value. Waits until no other thread holds it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, unless another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(value)) => Some(value.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> From<T> for Lock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_one_thread_is_not_one_of_the_others() {
        let lock = Lock::new(1);
        let panics = || {
            let mut held = lock.lock();
            *held = 2;
            panic!("on purpose");
        };
        std::thread::scope(|scope| assert!(scope.spawn(panics).join().is_err()));
        assert_eq!(*lock.lock(), 2);
        assert_eq!(lock.try_lock().map(|held| *held), Some(2));
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
    }
}
