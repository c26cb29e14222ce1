//! AggregateCounterVector - counts packets or bytes per aggregate in a vector
//!
//! # Synopsis
//! `AggregateCounterVector(MASK [, keywords BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, MARK])`
//!
//! # Description
//! Counts packets for each value of the aggregate annotation, of which MASK selects the low bits. It is faster than
//! AggregateCounter, because each thread has a counter for each aggregate, but the number of aggregates is fixed.
//!
//! DeviceBalancer reads how many packets each bucket of a device's hash table gets from an AggregateCounterVector behind
//! FromDPDKDevice(RSS_AGGREGATE true).
//!
//! # Arguments
//! - MASK: a power of two minus one, at most 1048575: the largest aggregate. Positional, mandatory.
//! - BYTES: count bytes, not packets. Keyword, default false.
//! - IP_BYTES: with BYTES, count from the IP header on. Keyword, default false.
//! - MULTIPACKET: without BYTES, also count the packets that a packet stands for (its extra packets annotation). Keyword,
//!   default true.
//! - EXTRA_LENGTH: with BYTES, also count the bytes that the capture cut off (the extra length annotation). Keyword,
//!   default true.
//! - MARK: accepted without effect: cards do not mark packets with an epoch. Keyword.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `counts` (read): one line per aggregate that occurred, with the aggregate and its count.
//! - `count` (read): the sum of all counts. `nagg` (read): the number of aggregates that occurred.
//! - `active` (read, write): whether it counts.
//! - `stop` (write): sets `active` to false and stops the router.
//! - `clear` (write): sets all counts to 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5)
//!     -> Paint(3)
//!     -> AggregatePaint
//!     -> c :: AggregateCounterVector(MASK 7)
//!     -> Discard;
//! DriverManager(wait 100ms, print c.counts, stop);
//! ```
//!
//! # See also
//! AggregateCounter, AggregateHash, DeviceBalancer, FromDPDKDevice

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Count, Element, Failed, Footprint, Handlers, Init, Lock, Moment, Offers, PerPacket,
    PerThread, Setup, View, Way, register,
};

use super::aggregate_length::Length;
use crate::capability::BucketCounts;

/// The element; its manual is at the top of the file.
pub struct AggregateCounterVector {
    mask: u32,
    unit: Unit,
    active: AtomicBool,
    counts: PerThread<Vector>,
    /// What the counts were when they were last cleared, and what an element before this one had counted.
    before: Lock<Vec<u64>>,
}

/// What is counted.
enum Unit {
    Packets { with_extra: bool },
    Bytes(Length),
}

/// The counts of one thread, made when it counts first.
#[derive(Default)]
struct Vector(OnceLock<Vec<Count>>);

register!(AggregateCounterVector, "aggregate_counter_vector.rs");

impl Element for AggregateCounterVector {
    const CLASS: Class = Class::new("AggregateCounterVector", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mask: Option<u32> = args.in_range("MASK", Kind::Positional, 0..=(1 << 20) - 1);
        let bytes = args.keyword("BYTES", false);
        let length = Length::configure(args, "IP_BYTES");
        let with_extra = args.keyword("MULTIPACKET", true);
        args.ignored::<bool>("MARK", Kind::Keyword, "cards do not mark packets with an epoch");
        match mask {
            None => args.error((), "required argument MASK missing"),
            Some(mask) if !(mask + 1).is_power_of_two() => {
                args.error("MASK", "MASK must be a power of two minus one");
            }
            Some(_) => {}
        }
        args.complete()?;
        Ok(Self {
            mask: mask.unwrap_or_default(),
            unit: if bytes { Unit::Bytes(length) } else { Unit::Packets { with_extra } },
            active: true.into(),
            counts: PerThread::default(),
            before: Lock::default(),
        })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if self.mask == old.mask {
            // Subtracted from nothing, they are added.
            let counts = old.counts().into_iter().map(u64::wrapping_neg).collect();
            *self.before.lock() = counts;
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::at_start((self.mask as usize + 1) * size_of::<Count>())
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn BucketCounts>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("counts", |vector, _| {
            let counts = vector.counts();
            let occurred = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            occurred.map(|(aggregate, count)| format!("{aggregate} {count}\n")).collect::<String>()
        });
        handlers.read("count", |vector, _| vector.counts().iter().sum::<u64>());
        handlers.read("nagg", |vector, _| {
            vector.counts().iter().filter(|count| **count > 0).count() as u64
        });
        handlers.read("active", |vector, _| vector.active.load(Relaxed));
        handlers.write("active", |vector, call| {
            vector.active.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.write("stop", |vector, call| {
            vector.active.store(false, Relaxed);
            call.router().request_stop();
            Ok(())
        });
        handlers.write("clear", |vector, _| {
            let mut before = vector.before.lock();
            *before = vector.totals();
            Ok(())
        });
    }
}

impl PerPacket for AggregateCounterVector {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        if self.active.load(Relaxed) {
            let amount = match &self.unit {
                Unit::Packets { with_extra: true } => 1 + u64::from(packet.extra_packets()),
                Unit::Packets { with_extra: false } => 1,
                Unit::Bytes(length) => {
                    length.of(packet.len(), packet.extra_length(), packet.network_offset()).into()
                }
            };
            let counts = self.counts.mine(at).0.get_or_init(|| self.vector());
            if let Some(count) = counts.get((packet.aggregate() & self.mask) as usize) {
                count.add(amount);
            }
        }
        Way::ON
    }
}

impl AggregateCounterVector {
    #[cold]
    fn vector(&self) -> Vec<Count> {
        (0..=self.mask).map(|_| Count::default()).collect()
    }

    /// The counts since the start.
    fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; self.mask as usize + 1];
        for counts in self.counts.iter().filter_map(|vector| vector.0.get()) {
            totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count.get());
        }
        totals
    }
}

impl BucketCounts for AggregateCounterVector {
    fn counts(&self) -> Vec<u64> {
        let before = self.before.lock();
        let mut totals = self.totals();
        totals.iter_mut().zip(&*before).for_each(|(total, old)| *total = total.wrapping_sub(*old));
        totals
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    /// A packet of this length.
    fn of(aggregate: u32, length: usize) -> Packet {
        let mut packet = Packet::from_bytes(&vec![0; length]).unwrap();
        packet.set_aggregate(aggregate);
        packet
    }

    #[test]
    fn counts_packets_by_the_low_bits_of_the_aggregate() {
        let mut rig = Rig::new("AggregateCounterVector(MASK 3)", 1, 1).unwrap();
        rig.push_packets(0, vec![of(0, 1), of(5, 1), of(1, 1), of(2, 1)]);
        let read = |rig: &Rig, name| rig.read(name).unwrap();
        assert_eq!(read(&rig, "counts"), "0 1\n1 2\n2 1\n");
        assert_eq!((read(&rig, "count"), read(&rig, "nagg")), ("4".into(), "3".into()));
        rig.write("clear", "").unwrap();
        rig.write("active", "false").unwrap();
        rig.push_packets(0, vec![of(1, 1)]);
        assert_eq!(read(&rig, "counts"), "");
        rig.write("active", "true").unwrap();
        rig.push_packets(0, vec![of(3, 1)]);
        assert_eq!(read(&rig, "counts"), "3 1\n");
    }

    #[test]
    fn counts_bytes_and_the_packets_that_a_packet_stands_for() {
        let mut rig = Rig::new("AggregateCounterVector(7, BYTES true)", 1, 1).unwrap();
        rig.push_packets(0, vec![of(6, 10), of(6, 20)]);
        assert_eq!(rig.read("counts").unwrap(), "6 30\n");
        let mut many = of(1, 1);
        many.set_extra_packets(4);
        let mut rig = Rig::new("AggregateCounterVector(7)", 1, 1).unwrap();
        rig.push_packets(0, vec![many]);
        assert_eq!(rig.read("counts").unwrap(), "1 5\n");
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in ["", "5", "-1", "1048576", "7, MARK 3"] {
            let text = format!("AggregateCounterVector({bad})");
            assert!(Rig::new(&text, 1, 1).is_err(), "{text}");
        }
    }
}
