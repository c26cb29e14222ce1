//! From the places of a receive ring to packets.

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::frames::HEADROOM;
use super::ring::Place;
use super::socket::Rx;

/// Takes up to `room` packets from a receive ring.
#[inline]
pub(super) fn take(rx: &mut Rx, batch: &mut Batch, room: usize, lost: &mut u64) -> usize {
    let most = u32::try_from(room).unwrap_or(u32::MAX);
    let available = rx.received.available(most).min(most);
    let mut n = 0;
    for _ in 0..available {
        let Some(place) = rx.received.peek(0) else { break };
        let packet = if place.is_continued() {
            let Some(descriptors) = length_of(rx) else { break };
            join(rx, descriptors)
        } else {
            rx.received.skip(1);
            restore(rx, place)
        };
        match packet {
            Some(packet) => {
                n += 1;
                // There is room.
                let _ = batch.push(packet);
            }
            None => *lost += 1,
        }
    }
    rx.received.release();
    n
}

/// The packet that the kernel has received at a place.
#[inline]
fn restore(rx: &mut Rx, place: Place) -> Option<Packet> {
    let (mut packet, within) = rx.lent.take_back(place.address)?;
    let len = place.len as usize;
    let fits =
        if within == HEADROOM { packet.set_len(len) } else { packet.set_window(within, len) };
    fits.then_some(packet)
}

/// The number of descriptors of the next packet; `None` while the kernel has not written all of them.
fn length_of(rx: &mut Rx) -> Option<u32> {
    let available = rx.received.available(u32::MAX);
    let end = (0..available).find(|at| rx.received.peek(*at).is_some_and(|p| !p.is_continued()));
    // A ring full of one packet would never go on.
    end.map(|end| end + 1).or((available == rx.received.size()).then_some(available))
}

/// Copies a packet that occupies several slots into one.
#[cold]
fn join(rx: &mut Rx, descriptors: u32) -> Option<Packet> {
    let places = |rx: &Rx| (0..descriptors).filter_map(|at| rx.received.peek(at)).collect();
    let places: Vec<Place> = places(rx);
    rx.received.skip(descriptors);
    let len = places.iter().map(|place| place.len as usize).sum();
    let mut whole = Packet::stale(HEADROOM, len, 0);
    let mut at = 0;
    for place in places {
        let part = restore(rx, place);
        let into =
            whole.as_mut().and_then(|whole| whole.data_mut().get_mut(at..at + place.len as usize));
        match (part, into) {
            (Some(part), Some(into)) => into.copy_from_slice(part.data()),
            _ => whole = None,
        }
        at += place.len as usize;
    }
    copies::count(CopyCause::Receive);
    whole
}
