//! TimeSortedSched - merges packet streams in timestamp order
//!
//! # Synopsis
//! `TimeSortedSched(keywords STOP, BUFFER)`
//!
//! # Description
//! Emits the packet with the earliest timestamp among those that its inputs have. It stores up to BUFFER packets of
//! each input, so the packets of one input can be slightly out of order. It does not pull from inputs that report no
//! packets. Packets with equal timestamps leave in the same order as from Click's heap.
//!
//! It pulls as many packets at a time from an input as it can store, and as many as are requested while no other input
//! has any. While several inputs have packets, it pulls a packet only after another packet of the same input has left,
//! because the next input is not known earlier.
//!
//! A hot swap takes the stored packets over, all of them, even if BUFFER is smaller then.
//!
//! # Arguments
//! - STOP: whether to stop the program when there are no packets and no input reports any. Default false.
//! - BUFFER: maximum number of packets to store for each input, at least 1. Default 1.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Handlers
//! - `well_ordered` (read): false once a packet has left with an earlier timestamp than a packet before it.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: TimeSortedSched -> Unqueue -> Print(TIMESTAMP true) -> Discard;
//! RatedSource(RATE 10, LIMIT 5) -> Queue -> [0] s;
//! RatedSource(RATE 7, LIMIT 5) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! FromDump, FromIPSummaryDump, RoundRobinSched

use std::sync::{MutexGuard, OnceLock};

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Packet, Refused, Setup,
    Timestamp, register,
};

use super::inputs::heap;
use super::inputs::lane::Lane;

/// The element; its manual is at the top of the file.
pub struct TimeSortedSched {
    stop: bool,
    kept: Lock<Kept>,
    upstream: OnceLock<Vec<Listening>>,
    /// Whether there are packets, in addition to the notifiers upstream.
    notifier: Notifier,
}

struct Kept {
    /// Packets and the inputs they came from: a heap by timestamp.
    packets: Vec<(Packet, usize)>,
    /// The maximum number of packets stored for an input.
    buffer: usize,
    /// For each input, how many packets are stored.
    stored: Vec<usize>,
    /// Inputs with room, pulled from the last to the first.
    ready: Vec<usize>,
    /// The timestamp of the last packet emitted that has one.
    last: Timestamp,
    well_ordered: bool,
}

register!(TimeSortedSched, "time_sorted_sched.rs");

impl Element for TimeSortedSched {
    const CLASS: Class = Class::new("TimeSortedSched", "-/1", "l/l").passes_wakes();
    type Local = Lane;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let stop = setup.args.keyword("STOP", false);
        let buffer: i32 = setup.args.keyword("BUFFER", 1);
        if buffer <= 0 {
            setup.args.error("BUFFER", "BUFFER must be at least 1");
        }
        setup.args.complete()?;
        let buffer = usize::try_from(buffer).unwrap_or(1);
        let kept = Kept {
            packets: Vec::new(),
            buffer,
            stored: vec![0; setup.inputs()],
            ready: (0..setup.inputs()).collect(),
            last: Timestamp::ZERO,
            well_ordered: true,
        };
        Ok(Self {
            stop,
            kept: Lock::new(kept),
            upstream: OnceLock::new(),
            notifier: Notifier::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let inputs = self.kept().stored.len();
        // An element is initialised once.
        let _ = self.upstream.set((0..inputs).map(|input| init.upstream(input)).collect());
        self.notifier.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, lane: &mut Lane, _port: usize, max: usize, batch: &mut Batch) {
        let mut some = cx.take_batch();
        let most = max.min(batch.room());
        while batch.len() < most {
            let telling = self.gather(cx, &mut some);
            if let Telling::One(input) = telling
                && self.is_alone(input)
            {
                lane.refill(cx, input, most - batch.len() - 1, &mut some);
                self.pass(lane, input, batch);
            }
            let mut kept = self.kept();
            match kept.packets.is_empty() && telling == Telling::None {
                true => self.notifier.sleep(),
                false => self.notifier.wake(),
            }
            let Some(packet) = kept.give() else {
                drop(kept);
                if self.stop && telling == Telling::None {
                    cx.router().request_stop();
                }
                break;
            };
            // The caller checks for room.
            let _ = batch.push(packet);
        }
        cx.give_batch(some);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn held(&self) -> usize {
        self.kept().packets.len()
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        self.kept().take(&mut old.kept());
        self.notifier.wake();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("well_ordered", |sched, _| sched.kept().well_ordered);
    }
}

impl TimeSortedSched {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// Pulls from the inputs that have room and report packets. Returns which these were.
    fn gather(&self, cx: &mut Context, some: &mut Batch) -> Telling {
        let upstream = self.upstream.get().map_or(&[][..], Vec::as_slice);
        let mut telling = Telling::None;
        let ready = self.kept().ready.len();
        for place in (0..ready).rev() {
            let Some(input) = self.kept().ready.get(place).copied() else { continue };
            if !upstream.get(input).is_some_and(|upstream| upstream.active(cx.router())) {
                continue;
            }
            telling = match telling {
                Telling::None => Telling::One(input),
                _ => Telling::Several,
            };
            // The lock is not held meanwhile: upstream elements may call handlers of this one.
            let mut room = self.kept().room_of(input);
            while room > 0 && cx.pull(input, room, some) > 0 {
                let mut kept = self.kept();
                some.drain().for_each(|packet| kept.keep(packet, input, place));
                room = kept.room_of(input);
            }
        }
        telling
    }

    /// Whether this input has no room left and the others have no packets.
    fn is_alone(&self, input: usize) -> bool {
        let kept = self.kept();
        kept.room_of(input) == 0 && kept.packets.len() == kept.buffer
    }

    /// Emits one packet for each that came from the only input with packets, and stores the new ones instead.
    fn pass(&self, lane: &mut Lane, input: usize, batch: &mut Batch) {
        let mut kept = self.kept();
        while let Some(packet) = lane.next() {
            if let Some(given) = kept.give() {
                // The caller checks for room.
                let _ = batch.push(given);
            }
            let place = kept.ready.iter().position(|ready| *ready == input);
            kept.keep(packet, input, place.unwrap_or_default());
        }
    }
}

/// The inputs with room that report packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    None,
    One(usize),
    Several,
}

impl Kept {
    /// How many more packets of an input can be stored.
    fn room_of(&self, input: usize) -> usize {
        self.stored.get(input).map_or(0, |stored| self.buffer.saturating_sub(*stored))
    }

    /// Stores a packet from the input at index `place` of the ready ones.
    fn keep(&mut self, packet: Packet, input: usize, place: usize) {
        self.packets.push((packet, input));
        heap::push(&mut self.packets, earlier);
        let Some(stored) = self.stored.get_mut(input) else { return };
        *stored += 1;
        if self.room_of(input) == 0 && place < self.ready.len() {
            self.ready.swap_remove(place);
        }
    }

    /// Removes the first packet.
    fn give(&mut self) -> Option<Packet> {
        let (packet, input) = heap::pop(&mut self.packets, earlier)?;
        let time = packet.timestamp();
        if !time.is_zero() {
            self.well_ordered &= self.last.is_zero() || time >= self.last;
            self.last = time;
        }
        // An input that is no more has nothing to count.
        if let Some(stored) = self.stored.get_mut(input) {
            *stored -= 1;
            if self.room_of(input) == 1 {
                self.ready.push(input);
            }
        }
        Some(packet)
    }

    /// Takes over what another one stores.
    fn take(&mut self, old: &mut Self) {
        self.packets = std::mem::take(&mut old.packets);
        for (_, input) in &self.packets {
            if let Some(stored) = self.stored.get_mut(*input) {
                *stored += 1;
            }
        }
        self.ready = (0..self.stored.len()).filter(|input| self.room_of(*input) > 0).collect();
        (self.last, self.well_ordered) = (old.last, old.well_ordered);
    }
}

fn earlier(a: &(Packet, usize), b: &(Packet, usize)) -> bool {
    a.0.timestamp() < b.0.timestamp()
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    #[test]
    fn packets_leave_in_timestamp_order() {
        let mut rig = Rig::new("TimeSortedSched(BUFFER 2)", 2, 1).unwrap();
        let at = |millis: i64| {
            let mut packet = Packet::from_bytes(&[millis as u8]).unwrap();
            packet.set_timestamp(Timestamp::from_millis(millis));
            packet
        };
        let out = rig.push_packets(0, vec![at(2), at(1), at(9), at(3)]);
        let bytes: Vec<u8> = out[0].iter().map(|packet| packet.data()[0]).collect();
        assert_eq!(bytes, [1, 2, 3, 9]);
        assert_eq!(rig.read("well_ordered").unwrap(), "true");
        rig.push_packets(1, vec![at(8)]);
        assert_eq!(rig.read("well_ordered").unwrap(), "false");
        assert!(rig.stats().balanced());
    }
}
