//! Security associations: the state shared by both ends of a tunnel. RadixIPsecLookup creates them and annotates
//! each packet with the number of its association; the other elements look it up by that annotation.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, MutexGuard, PoisonError, RwLock, Weak};

use aes::Aes128;
use aes::cipher::KeyInit;
use millrace_core::{Lock, Packet};

use super::replay::ReplayWindow;

/// Length of each key in bytes.
pub(crate) const KEY_LEN: usize = 16;

/// A security association.
pub(crate) struct Association {
    /// The number that annotations hold.
    number: u64,
    pub(crate) spi: u32,
    pub(crate) encryption_key: [u8; KEY_LEN],
    pub(crate) authentication_key: [u8; KEY_LEN],
    pub(crate) cipher: Aes128,
    state: Lock<State>,
}

/// The state that changes with each packet.
pub(crate) struct State {
    /// The first sequence number.
    start: u32,
    /// The next sequence number to send.
    next: u32,
    pub(crate) window: ReplayWindow,
}

/// Every association in the program, by number.
static ALL: LazyLock<RwLock<HashMap<u64, Weak<Association>>>> = LazyLock::new(RwLock::default);
/// The next number. 0 is never used, because it means that the annotation is not set.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Association {
    pub(crate) fn new(
        spi: u32,
        encryption_key: [u8; KEY_LEN],
        authentication_key: [u8; KEY_LEN],
        start: u32,
        window: u32,
    ) -> Arc<Self> {
        let association = Arc::new(Self {
            number: NEXT.fetch_add(1, Relaxed),
            spi,
            encryption_key,
            authentication_key,
            cipher: Aes128::new(&encryption_key.into()),
            state: Lock::new(State {
                start,
                next: start,
                window: ReplayWindow::new(window, start),
            }),
        });
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(association.number, Arc::downgrade(&association));
        association
    }

    /// The association that a packet's annotation names.
    pub(crate) fn of(packet: &Packet) -> Option<Arc<Self>> {
        let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&packet.perfctr())?.upgrade()
    }

    /// Sets a packet's annotation to this association.
    pub(crate) fn annotate(&self, packet: &mut Packet) {
        packet.set_perfctr(self.number);
    }

    /// The sequence number for a packet. After the last number, the sequence restarts at the first, as in Click.
    pub(crate) fn next_sequence(&self) -> u32 {
        let mut state = self.state();
        let number = state.next;
        state.next = if number == 0 { state.start } else { number.wrapping_add(1) };
        number
    }

    /// Whether both have the same index and keys: then they are one association, with one sequence.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let keys = |one: &Self| (one.spi, one.encryption_key, one.authentication_key);
        keys(self) == keys(other)
    }

    /// Adopts the first number and the window size of another one. No number is sent or accepted a second time.
    pub(crate) fn adopt(&self, other: &Self) {
        let (start, size) = {
            let other = other.state();
            (other.start, other.window.size())
        };
        let mut state = self.state();
        state.start = start;
        // 0 comes after the last number.
        if state.next != 0 {
            state.next = state.next.max(start);
        }
        state.window.resize(size);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        ALL.write().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// The keys, as Click's tables show them.
impl fmt::Display for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" |")?;
        self.encryption_key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("| |")?;
        self.authentication_key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("|")
    }
}
