//! What `millrace_core::sync` names, with the model checker's types.

mod arc;
pub mod atomic;
pub mod cell;
pub mod sites;

use std::sync::TryLockError;

pub use arc::Arc;
pub use loom::sync::{Mutex, MutexGuard, RwLock};

/// As in `millrace_core`.
pub const IS_MODEL: bool = true;

/// The processor's hints.
pub mod hint {
    pub use loom::hint::spin_loop;
}

/// What a thread does to itself.
pub mod thread {
    pub use loom::thread::yield_now;
}

/// Statics, made anew for each execution.
macro_rules! process_wide {
    ($($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        loom::lazy_static! {
            $($(#[$about])* static ref $name: $type = $value;)*
        }
    };
}
pub(crate) use process_wide;

/// The lock of `millrace_core`, around the checker's mutex. A panic ends a model, so no lock outlives one.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around a value.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
