//! Where packets go whose count another thread keeps ([`PlainCounts`](super::PlainCounts)).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::descriptor::{LetGo, Slot, TAGS};
use crate::Lock;

thread_local! {
    /// The tag of a thread that counts plainly; 0 for none. No destructor, so no check on access.
    pub(super) static TAG: Cell<u16> = const { Cell::new(0) };
}

/// The tag of the running thread.
#[inline(always)]
pub(super) fn tag() -> u16 {
    TAG.get()
}

/// Where packets with a tag are sent back to.
pub(super) struct Home {
    /// Whether a packet was posted; read without the lock.
    pub(super) pending: AtomicBool,
    pub(super) inside: Lock<Inside>,
}

pub(super) struct Inside {
    pub(super) owned: bool,
    pub(super) posted: Vec<Slot>,
}

/// Tags count from 1.
pub(super) static HOMES: [Home; TAGS] = [const {
    Home {
        pending: AtomicBool::new(false),
        inside: Lock::new(Inside { owned: false, posted: Vec::new() }),
    }
}; TAGS];

pub(super) fn home(tag: u16) -> Option<&'static Home> {
    HOMES.get(usize::from(tag).checked_sub(1)?)
}

/// Sends a packet with the tag of another thread to the place where its count may be changed. If no thread has the
/// tag, it releases the buffer here and returns what is left to give back.
#[cold]
pub(super) fn post(slot: Slot, tag: u16) -> Option<LetGo> {
    let home = home(tag)?;
    let mut inside = home.inside.lock();
    if inside.owned {
        inside.posted.push(slot);
        home.pending.store(true, Ordering::Relaxed);
        return None;
    }
    // No thread can get the tag while the lock is held: this one may count in its place.
    Some(slot.buffer_owner().let_go(tag))
}
