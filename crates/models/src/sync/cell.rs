//! Cells whose accesses the checker orders.

#![allow(unsafe_code, reason = "what is not ordered ends the model before two threads are inside")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Like the standard library's. The checker takes each [`get`](Self::get) for a write, and fails when two of them are
/// not ordered.
#[derive(Debug)]
pub struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell with a value.
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// The place of the value.
    #[track_caller]
    pub fn get(&self) -> *mut T {
        self.0.with_mut(|place| place)
    }

    /// The value, when no other thread can access it.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: it is borrowed alone.
        unsafe { &mut *self.0.with_mut(|place| place) }
    }
}

/// Something that threads look at, and that one of them ends. The checker fails when an access is not ordered with the
/// others.
#[derive(Debug)]
pub struct Watched {
    cell: loom::cell::UnsafeCell<()>,
    ended: AtomicBool,
}

// SAFETY: the cell is empty.
unsafe impl Sync for Watched {}

impl Default for Watched {
    fn default() -> Self {
        Self { cell: loom::cell::UnsafeCell::new(()), ended: AtomicBool::new(false) }
    }
}

impl Watched {
    /// An access that goes with others of its kind.
    #[track_caller]
    pub fn look(&self) {
        self.cell.with(|_| ());
        assert!(!self.ended.load(Relaxed), "it has ended");
    }

    /// An access that excludes all others.
    #[track_caller]
    pub fn change(&self) {
        self.cell.with_mut(|_| ());
        assert!(!self.ended.load(Relaxed), "it has ended");
    }

    /// The last access.
    #[track_caller]
    pub fn end(&self) {
        // The model has failed already.
        if std::thread::panicking() {
            return;
        }
        self.cell.with_mut(|_| ());
        self.ended.store(true, Relaxed);
    }
}
