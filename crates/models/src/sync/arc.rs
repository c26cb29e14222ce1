//! Shared values whose holders the checker counts.

#![allow(unsafe_code, reason = "the value goes with its last holder, as in the standard library")]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicUsize;

/// Like the standard library's. The memory of a value stays when the value has gone: a reader that comes too late reads
/// what is left, and the checker finds that its access is not ordered.
#[derive(Debug)]
pub struct Arc<T>(std::sync::Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    value: UnsafeCell<ManuallyDrop<T>>,
    holders: AtomicUsize,
}

// SAFETY: as the standard library's `Arc`; the cell is only for the drop by the last holder.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

#[allow(missing_docs, reason = "as in the standard library")]
impl<T> Arc<T> {
    pub fn new(value: T) -> Self {
        let value = UnsafeCell::new(ManuallyDrop::new(value));
        let shared = std::sync::Arc::new(Shared { value, holders: AtomicUsize::new(1) });
        std::mem::forget(std::sync::Arc::downgrade(&shared));
        Self(shared)
    }

    pub fn as_ptr(this: &Self) -> *const T {
        this.0.value.get().cast_const().cast()
    }

    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        ptr::eq(Self::as_ptr(this), Self::as_ptr(other))
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: while there is a holder, the value is not dropped.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        self.0.holders.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        // The model has failed already.
        if std::thread::panicking() {
            return;
        }
        if self.0.holders.fetch_sub(1, Release) == 1 {
            self.0.holders.load(Acquire);
            // SAFETY: this was the last holder, so nobody else reaches the value.
            unsafe { ManuallyDrop::drop(&mut *self.0.value.get()) };
        }
    }
}

impl<T> From<T> for Arc<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
