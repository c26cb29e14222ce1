//! The packets that go through a program together.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::memory::{Batch, Descriptor, Packet, Readiness, View};

/// A set of packets of a tile: one bit per seat.
pub(super) type Mask = u64;

/// Up to [`Tile::CAPACITY`] packets, each in its own seat until it leaves the program. Seats are numbered in
/// the order in which the packets arrived, and a walk through a [`Mask`] finds them in this order. So packets
/// that took different branches are in order at the join without sorting.
pub(super) struct Tile {
    pub(super) seats: [MaybeUninit<Seat>; Tile::CAPACITY],
    /// The packets that the short forms of steps may process ([`View::is_ready`]).
    pub(super) ready: Mask,
}

/// A packet, as the words of its view.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
}

impl Tile {
    /// The maximum number of packets in a tile.
    pub(super) const CAPACITY: usize = Mask::BITS as usize;

    pub(super) fn new() -> Self {
        Self { seats: [const { MaybeUninit::uninit() }; Tile::CAPACITY], ready: 0 }
    }

    /// Seats packets from the front of a batch, as many as there is room for. Returns their mask and their
    /// number.
    #[inline]
    pub(super) fn seat(&mut self, batch: &mut Batch) -> (Mask, u32) {
        let seated = batch.len().min(Tile::CAPACITY);
        let mut readiness = Readiness::default();
        for (seat, packet) in self.seats.iter_mut().zip(batch.iter()) {
            // SAFETY: the batch forgets the packets.
            let packet = unsafe { std::ptr::read(packet) };
            let view = View::of_any(packet, &mut readiness);
            // Whoever looks at the bytes first does not wait for each packet's, then.
            view.prefetch();
            seat.write(Seat::from(view));
        }
        let unready = !readiness.of_all();
        batch.forget_front(seated);
        let all = Mask::MAX.checked_shr((Tile::CAPACITY - seated) as u32).unwrap_or(0);
        self.ready = if unready { 0 } else { all };
        if unready {
            self.look_for_ready(all);
        }
        (all, seated as u32)
    }

    #[cold]
    fn look_for_ready(&mut self, all: Mask) {
        for place in places(all) {
            // SAFETY: the packets were just seated.
            let packet = unsafe { self.take(place) };
            self.put(place, packet);
        }
    }

    /// Puts a packet into a seat.
    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, packet: Packet) {
        self.set(place, View::of(packet));
    }

    /// Takes a packet out of its seat.
    ///
    /// # Safety
    /// There is a packet in it, which is taken once.
    #[inline(always)]
    pub(super) unsafe fn take(&mut self, place: usize) -> Packet {
        // SAFETY: the caller's promise.
        unsafe { self.view(place) }.into_packet()
    }

    /// [`take`](Tile::take) of a packet that is ready.
    ///
    /// # Safety
    /// The packet is ready, and the conditions of `take` hold.
    #[inline(always)]
    pub(super) unsafe fn take_ready(&mut self, place: usize) -> Packet {
        // SAFETY: the caller's promise.
        unsafe { self.seats[place % Tile::CAPACITY].assume_init().view(true) }.into_packet()
    }

    /// The view of a packet, to be put back with [`set`](Tile::set).
    ///
    /// # Safety
    /// See [`take`](Tile::take).
    #[inline(always)]
    pub(super) unsafe fn view(&self, place: usize) -> View {
        let place = place % Tile::CAPACITY;
        // SAFETY: the caller's promise; the mask says which of the packets are ready.
        unsafe { self.seats[place].assume_init().view(self.ready >> place & 1 == 1) }
    }

    /// Puts a packet's view back.
    #[inline(always)]
    pub(super) fn set(&mut self, place: usize, view: View) {
        let place = place % Tile::CAPACITY;
        self.ready = self.ready & !(1 << place) | Mask::from(view.is_ready()) << place;
        self.seats[place].write(Seat::from(view));
    }
}

impl Seat {
    /// # Safety
    /// The packet is viewed once until it is put back; `ready` is false unless its view was.
    #[inline(always)]
    pub(super) unsafe fn view(self, ready: bool) -> View {
        // SAFETY: the words are those of a view; the rest is the caller's promise.
        unsafe { View::from_words((self.slot, self.data, self.len, self.headers), ready) }
    }
}

impl Seat {
    /// Puts back the view that was made of this seat: stores what may have changed.
    #[inline(always)]
    pub(super) fn set(&mut self, view: View) {
        let ((slot, data, len, headers), changed) = view.into_words();
        if changed.slot {
            self.slot = slot;
        }
        if changed.data {
            self.data = data;
        }
        if changed.len {
            self.len = len;
        }
        if changed.headers {
            self.headers = headers;
        }
    }
}

impl From<View> for Seat {
    #[inline(always)]
    fn from(view: View) -> Self {
        let ((slot, data, len, headers), _) = view.into_words();
        Self { slot, data, len, headers }
    }
}

/// Whether a mask has the first seats alone: then nothing needs to be looked for.
#[inline(always)]
pub(super) fn is_run(mask: Mask) -> bool {
    mask & mask.wrapping_add(1) == 0
}

/// The seats of a mask, in order.
#[inline(always)]
pub(super) fn places(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        place
    })
}
