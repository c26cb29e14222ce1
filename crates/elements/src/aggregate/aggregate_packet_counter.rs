//! AggregatePacketCounter - records which packets of each aggregate arrived at which input
//!
//! # Synopsis
//! `AggregatePacketCounter([keyword ANNO])`
//!
//! # Description
//! Counts packets by aggregate, packet number and input, and forwards them. With the sender's traffic at one input and
//! the receiver's at another, it reports which packets were lost. Packets of aggregate 0 are not counted.
//!
//! It keeps about 16 bytes for each number of each aggregate at each input.
//!
//! # Arguments
//! - ANNO: the four-byte annotation that holds the packet's number, by name or offset, or NONE to treat all packets of
//!   an aggregate as number 0. Keyword, default PACKET_NUMBER.
//!
//! # Ports
//! Any number of agnostic inputs and as many outputs; packets from input N leave by output N.
//!
//! # Handlers
//! - `count` (read): the number of packets counted.
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

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use millrace_core::args::{Annotation, Kind};
use millrace_core::element::HandlerError;
use millrace_core::{
    Arg, Batch, Call, Class, Context, Element, Failed, Handlers, Lock, Packet, Setup, register,
};

/// The element; its manual is at the top of the file.
pub struct AggregatePacketCounter {
    inputs: usize,
    number: Number,
    counts: Lock<Counts>,
}

/// By aggregate and number: the count at each input.
type Counts = HashMap<u32, BTreeMap<u32, Box<[u32]>>, RandomState>;

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
        args.complete()?;
        Ok(Self { inputs, number: number.unwrap_or(Number::Packet), counts: Lock::default() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        self.count(port, batch);
        cx.push_batch(port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
        self.count(port, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |counter, _| {
            let counts = counter.counts.lock();
            let all = counts.values().flat_map(BTreeMap::values).flat_map(|ports| ports.iter());
            all.map(|count| u64::from(*count)).sum::<u64>()
        });
        handlers.try_read("received", |counter, call| counter.numbers(call, |_| true));
        handlers.try_read("undelivered", |counter, call| match counter.inputs {
            0 | 1 => Err(HandlerError::from("there is one input alone")),
            _ => counter.numbers(call, |ports| ports[0] > ports[1]),
        });
        handlers.write("clear", |counter, _| {
            counter.counts.lock().clear();
            Ok(())
        });
    }
}

impl AggregatePacketCounter {
    fn count(&self, port: usize, batch: &Batch) {
        let mut counts = self.counts.lock();
        for packet in batch.iter().filter(|packet| packet.aggregate() != 0) {
            let numbers = counts.entry(packet.aggregate()).or_default();
            let ports = numbers
                .entry(self.number(packet))
                .or_insert_with(|| vec![0; self.inputs].into_boxed_slice());
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
        let numbers = counts.get(&aggregate).into_iter().flatten();
        let numbers = numbers.filter(|(_, ports)| holds(ports));
        Ok(numbers.map(|(number, _)| format!("{number}\n")).collect())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

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
