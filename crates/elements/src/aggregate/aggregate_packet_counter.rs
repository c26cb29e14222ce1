//! AggregatePacketCounter - records which packets of each aggregate arrived at which input
//!
//! # Synopsis
//! `AggregatePacketCounter([keywords ANNO, CAPACITY])`
//!
//! # Description
//! Counts packets by aggregate, packet number and input, and forwards them. With the sender's traffic at one input and
//! the receiver's at another, it reports which packets were lost. Packets of aggregate 0 are not counted.
//!
//! It keeps 50 to 100 bytes for each number of each aggregate. While there are CAPACITY numbers, new ones are not
//! counted.
//!
//! # Arguments
//! - ANNO: the four-byte annotation that holds the packet's number, by name or offset, or NONE to treat all packets of
//!   an aggregate as number 0. Keyword, default PACKET_NUMBER.
//! - CAPACITY: maximum number of packet numbers, those of all aggregates together. Keyword, default 4194304.
//!
//! # Ports
//! Any number of agnostic inputs and as many outputs; packets from input N leave by output N.
//!
//! # Handlers
//! - `count` (read): the number of packets counted.
//! - `uncounted` (read): the number of packets that were not counted because there were CAPACITY numbers.
//! - `received AGGREGATE` (read): the numbers of that aggregate that arrived at any input, one per line.
//! - `undelivered AGGREGATE` (read): those that arrived at input 0 more often than at input 1. Needs two inputs.
//! - `clear` (write): deletes all counts.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 9) -> NumberPacket -> AggregateLength
//!     -> [0] c :: AggregatePacketCounter [0] -> RandomSample(0.5) -> [1] c [1] -> Discard;
//! ```
//!
//! # See also
//! AggregateCounter, AggregateIPFlows

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use millrace_core::args::{Annotation, Kind};
use millrace_core::element::HandlerError;
use millrace_core::{
    Arg, Batch, Call, Class, Context, Element, Failed, Footprint, Handlers, Lock, Packet, Setup,
    register,
};

use crate::flows::capacity::capacity_or;

/// The element; its manual is at the top of the file.
pub struct AggregatePacketCounter {
    inputs: usize,
    number: Number,
    capacity: usize,
    counts: Lock<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By aggregate and number: the count at each input.
    by_number: BTreeMap<(u32, u32), Box<[u32]>>,
    /// Packets whose numbers found no room.
    uncounted: u64,
}

/// The default of CAPACITY.
const MOST_NUMBERS: u32 = 1 << 22;

/// Where the number of a packet is.
enum Number {
    Packet,
    /// The offset of its first byte.
    Annotation(usize),
    /// All packets have number 0.
    Zero,
}

register!(AggregatePacketCounter, "aggregate_packet_counter.rs");

impl Element for AggregatePacketCounter {
    const CLASS: Class = Class::new("AggregatePacketCounter", "1-/=", "a/a").flow("#/#");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let args = &mut setup.args;
        let expects = "an annotation by name or offset, or NONE";
        let number = args.with("ANNO", Kind::Keyword, expects, |text, scope| match text.as_str() {
            "NONE" => Ok(Number::Zero),
            _ => Annotation::<4>::parse(text, scope).map(|Annotation(at)| Number::Annotation(at)),
        });
        let capacity = capacity_or(args, MOST_NUMBERS);
        args.complete()?;
        let number = number.unwrap_or(Number::Packet);
        Ok(Self { inputs, number, capacity, counts: Lock::default() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        self.count(port, batch);
        cx.push_batch(port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
        self.count(port, batch);
    }

    fn footprint(&self) -> Footprint {
        // The nodes of the tree are at least half full; the allocator adds to each entry's counts.
        let node = 2 * size_of::<((u32, u32), Box<[u32]>)>() + 4;
        let counts = (size_of::<u32>() * self.inputs).next_multiple_of(16) + 16;
        Footprint::tables(self.capacity.saturating_mul(node + counts))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |counter, _| {
            let counts = counter.counts.lock();
            let all = counts.by_number.values().flat_map(|ports| ports.iter());
            all.map(|count| u64::from(*count)).sum::<u64>()
        });
        handlers.read("uncounted", |counter, _| counter.counts.lock().uncounted);
        handlers.try_read("received", |counter, call| counter.numbers(call, |_| true));
        handlers.try_read("undelivered", |counter, call| match counter.inputs {
            0 | 1 => Err(HandlerError::from("there is one input alone")),
            _ => counter.numbers(call, |ports| ports[0] > ports[1]),
        });
        handlers.write("clear", |counter, _| {
            *counter.counts.lock() = Counts::default();
            Ok(())
        });
    }
}

impl AggregatePacketCounter {
    fn count(&self, port: usize, batch: &Batch) {
        let Counts { by_number, uncounted } = &mut *self.counts.lock();
        for packet in batch.iter().filter(|packet| packet.aggregate() != 0) {
            let known = by_number.len();
            let ports = match by_number.entry((packet.aggregate(), self.number(packet))) {
                Entry::Occupied(ports) => ports.into_mut(),
                Entry::Vacant(place) if known < self.capacity => {
                    place.insert(vec![0; self.inputs].into_boxed_slice())
                }
                Entry::Vacant(_) => {
                    *uncounted += 1;
                    continue;
                }
            };
            if let Some(count) = ports.get_mut(port) {
                *count = count.wrapping_add(1);
            }
        }
    }

    fn number(&self, packet: &Packet) -> u32 {
        match self.number {
            Number::Packet => packet.packet_number(),
            Number::Annotation(at) => packet.anno_u32(at),
            Number::Zero => 0,
        }
    }

    /// The numbers of the aggregate named by the call whose counts by input satisfy `holds`.
    fn numbers(&self, call: &Call<'_>, holds: fn(&[u32]) -> bool) -> Result<String, HandlerError> {
        let aggregate: u32 = match &*call.text() {
            "" => 0,
            _ => call.parse().map_err(|_| "argument should be aggregate number")?,
        };
        let counts = self.counts.lock();
        let numbers = counts.by_number.range((aggregate, 0)..=(aggregate, u32::MAX));
        let numbers = numbers.filter(|(_, ports)| holds(ports));
        Ok(numbers.map(|((_, number), _)| format!("{number}\n")).collect())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn a_full_table_counts_the_numbers_that_it_knows() {
        let mut rig = Rig::new("AggregatePacketCounter(CAPACITY 3)", 1, 1).unwrap();
        for (aggregate, number) in [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (1, 2)] {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_aggregate(aggregate);
            packet.set_packet_number(number);
            rig.push_packets(0, vec![packet]);
        }
        assert_eq!(["count", "uncounted"].map(|name| rig.read(name).unwrap()), ["4", "2"]);
        assert_eq!(rig.read_with("received", "1").unwrap(), "1\n2\n");
    }

    #[test]
    fn packets_without_numbers_have_number_0() {
        for (anno, numbers) in [("", "7\n"), ("ANNO AGGREGATE", "3\n"), ("ANNO NONE", "0\n")] {
            let mut rig = Rig::new(&format!("AggregatePacketCounter({anno})"), 1, 1).unwrap();
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_aggregate(3);
            packet.set_packet_number(7);
            rig.push_packets(0, vec![packet]);
            assert_eq!(rig.read_with("received", "3").unwrap(), numbers, "{anno}");
        }
        assert!(Rig::new("AggregatePacketCounter(ANNO none)", 1, 1).is_err());
    }
}
