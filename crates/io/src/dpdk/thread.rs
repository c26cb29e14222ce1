//! Registration of our threads with DPDK: only registered threads cache mbufs.

use std::cell::{Cell, OnceCell};

use super::abi::Table;

thread_local! {
    /// Whether the thread is registered. No destructor, so no check on access.
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static MEMBERSHIP: OnceCell<Membership> = const { OnceCell::new() };
}

/// Ends with the thread.
struct Membership(&'static Table);

impl Drop for Membership {
    fn drop(&mut self) {
        // SAFETY: this thread was registered and uses no mbufs any more.
        unsafe { (self.0.unregister)() };
    }
}

/// Registers the calling thread, once.
#[inline(always)]
pub(super) fn make_known(table: &'static Table) {
    if !KNOWN.get() {
        register(table);
    }
}

#[cold]
fn register(table: &'static Table) {
    KNOWN.set(true);
    // SAFETY: the environment runs.
    let result = unsafe { (table.register)() };
    // 0 says that DPDK knows the thread by itself; an error, that it has too many, which is slow, not wrong.
    if result > 0 {
        let _ = MEMBERSHIP.try_with(|membership| {
            let _ = membership.set(Membership(table));
        });
    }
}
