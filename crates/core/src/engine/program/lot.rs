//! Where the packets of a batch meet at an element that waits for memory.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::Op;
use super::step::Forms;
use crate::memory::{Batch, Descriptor, Packet, View};

/// Packets that have met at a step, as the words of their views.
pub(super) struct Lot {
    met: Box<[MaybeUninit<Met>; Batch::CAPACITY]>,
    count: usize,
}

#[derive(Clone, Copy)]
struct Met {
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    /// Which form of the step is for the packet.
    form: usize,
}

impl Default for Lot {
    fn default() -> Self {
        Self { met: Box::new([const { MaybeUninit::uninit() }; Batch::CAPACITY]), count: 0 }
    }
}

impl Lot {
    /// Takes the packets through the step at which they met, and through those that follow, until `stopped` says to
    /// wait with the others, which are left.
    ///
    /// # Safety
    /// The step is linked and has this lot; no other step runs.
    pub(super) unsafe fn leave(
        lot: *mut Lot,
        op: *const Op,
        stopped: impl Fn() -> bool,
    ) -> Option<Batch> {
        // SAFETY: so many packets have met, and each is taken once; steps further on have other lots.
        unsafe {
            let count = std::mem::take(&mut (*lot).count);
            let met = (*lot).met.as_ptr().cast::<Met>();
            let mut place = 0;
            while place < count {
                let Met { slot, data, len, headers, form } = *met.add(place);
                place += 1;
                ((*op).waiting_run[form])(slot, data, len, headers, op);
                if stopped() {
                    break;
                }
            }
            (place < count).then(|| {
                let mut left = Batch::new();
                for place in place..count {
                    // There is room for all packets of a batch.
                    let _ = left.push((*met.add(place)).packet());
                }
                left
            })
        }
    }
}

impl Met {
    /// # Safety
    /// The packet is taken once.
    unsafe fn packet(self) -> Packet {
        // SAFETY: the words are a view's; a view need not be ready.
        unsafe {
            View::from_words((self.slot, self.data, self.len, self.headers), false).into_packet()
        }
    }
}

/// The step of packets that meet.
pub(super) const MEET: Forms = [meet::<0>, meet::<1>];

unsafe fn meet<const FORM: usize>(
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    op: *const Op,
) {
    // SAFETY: the step has a lot, which is empty before a batch and has room for all of its packets, each of which
    // comes here once: steps lead to later ones alone.
    unsafe {
        let lot = (*op).lot;
        let place = (*lot).met.as_mut_ptr().add((*lot).count);
        place.write(MaybeUninit::new(Met { slot, data, len, headers, form: FORM }));
        (*lot).count += 1;
    }
}
