//! AggregateCounter - counts packets or bytes per aggregate
//!
//! # Synopsis
//! `AggregateCounter([keywords BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, AGGREGATE_FREEZE, AGGREGATE_STOP, AGGREGATE_CALL, COUNT_FREEZE, COUNT_STOP, COUNT_CALL, BANNER, CAPACITY])`
//!
//! # Description
//! Keeps a count for each value of the aggregate annotation. The counts are 32 bits wide and wrap around.
//! `write_text_file` and `write_file` write them to a file, in the order of the aggregates.
//!
//! A frozen AggregateCounter still counts the aggregates that it knows, but adds no new ones. It treats packets from
//! input 1 as if it were frozen.
//!
//! While there are CAPACITY aggregates, packets of new ones are not counted.
//!
//! # Arguments
//! - BYTES: count bytes, not packets. Keyword, default false.
//! - IP_BYTES: with BYTES, count from the IP header on. Keyword, default false.
//! - MULTIPACKET: without BYTES, also count the packets that a packet stands for (its extra packets annotation, which
//!   FromIPSummaryDump sets). Keyword, default true.
//! - EXTRA_LENGTH: with BYTES, also count the bytes that the capture cut off (the extra length annotation). Keyword,
//!   default true.
//! - AGGREGATE_FREEZE, AGGREGATE_STOP: freeze, or stop the router, when there are this many aggregates and a packet of
//!   a new one arrives. Keywords.
//! - AGGREGATE_CALL: a number of aggregates and a write handler with its value, called at that moment. Keyword; use at
//!   most one of the three.
//! - COUNT_FREEZE, COUNT_STOP, COUNT_CALL: the same, when the sum of all counts reaches a number.
//! - BANNER: text for the head of each file. Keyword.
//! - CAPACITY: maximum number of aggregates. Keyword, default 16777216.
//!
//! # Ports
//! One or two agnostic inputs, one or two agnostic outputs. With two outputs and push, packets that were not counted
//! leave by output 1.
//!
//! # Handlers
//! - `write_text_file`, `write_ascii_file` (write): writes the named file, or standard output for `-`: one line per
//!   aggregate, with the aggregate and its count.
//! - `write_ip_file` (write): the same, with aggregates written as IP addresses.
//! - `write_pdf_file` (write): the same, with each count as a fraction of the sum.
//! - `write_file` (write): the same, as four-byte little-endian numbers.
//! - `count`, `nagg` (read): the sum of all counts; the number of aggregates.
//! - `uncounted` (read): packets that were not counted because there were CAPACITY aggregates.
//! - `freeze`, `active` (read, write): whether it is frozen; whether it counts at all.
//! - `stop` (write): sets `active` to false and stops the router.
//! - `clear` (write): deletes all counts.
//! - `reaggregate_counts` (write): turns each count into an aggregate, and counts how often each occurred.
//! - `banner` (read, write): as BANNER.
//! - `aggregate_call`, `count_call` (read, write): as AGGREGATE_CALL and COUNT_CALL; empty for none.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> AggregateIP(ip dst)
//!     -> counts :: AggregateCounter
//!     -> Discard;
//! DriverManager(wait, write counts.write_ip_file -);
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPFlows, Counter

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use foldhash::fast::RandomState;
use millrace_core::args::{FileName, Kind, parse};
use millrace_core::element::HandlerError;
use millrace_core::{
    Batch, Call, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Packet, Refused,
    Setup, os_error_text, register, standard_output,
};

use super::aggregate_length::Length;
use crate::flows::capacity::capacity_or;
use crate::measure::counter::Trigger;

/// The element; its manual is at the top of the file.
pub struct AggregateCounter {
    unit: Unit,
    frozen: AtomicBool,
    active: AtomicBool,
    counts: Lock<Counts>,
    banner: Lock<Vec<u8>>,
    /// The maximum number of aggregates.
    capacity: usize,
    /// At how many aggregates it freezes or stops by itself.
    ends_at: Option<usize>,
}

/// The default of CAPACITY.
const MOST_AGGREGATES: u32 = 1 << 24;

/// What is counted.
enum Unit {
    Packets { with_extra: bool },
    Bytes(Length),
}

#[derive(Default)]
struct Counts {
    by_aggregate: HashMap<u32, u32, RandomState>,
    sum: u64,
    /// Packets of new aggregates for which there was no room.
    uncounted: u64,
    /// Called before an aggregate is added beyond its number.
    aggregate_call: Option<Trigger>,
    /// Called when the sum reaches its number.
    count_call: Option<Trigger>,
}

/// The result of counting a packet.
enum Counted {
    /// Whether the packet was counted, and what to call.
    Done(bool, Option<Trigger>),
    /// Call this first, then count again.
    After(Trigger),
}

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Addresses,
    Parts,
    Binary,
}

register!(AggregateCounter, "aggregate_counter.rs");

impl Element for AggregateCounter {
    const CLASS: Class = Class::new("AggregateCounter", "1-2/1-2", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let bytes = args.keyword("BYTES", false);
        let length = Length::configure(args, "IP_BYTES");
        let with_extra = args.keyword("MULTIPACKET", true);
        let banner: Vec<u8> = args.keyword("BANNER", Vec::new());
        let capacity = capacity_or(args, MOST_AGGREGATES);
        let (aggregate_call, ends_at) = one_call(setup, "AGGREGATE");
        let (count_call, _) = one_call(setup, "COUNT");
        setup.args.complete()?;
        Ok(Self {
            unit: if bytes { Unit::Bytes(length) } else { Unit::Packets { with_extra } },
            frozen: false.into(),
            active: true.into(),
            counts: Lock::new(Counts { aggregate_call, count_call, ..Counts::default() }),
            banner: Lock::new(banner),
            capacity,
            ends_at: ends_at.map(|at| usize::try_from(at).unwrap_or(usize::MAX)),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let (aggregates, sum) = {
            let counts = self.counts.lock();
            (counts.aggregate_call.clone(), counts.count_call.clone())
        };
        aggregates.into_iter().chain(sum).try_for_each(|trigger| trigger.check(init))
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        if cx.outputs() == 1 {
            batch.iter().for_each(|packet| _ = self.count(cx, packet, port == 1));
            return cx.push_batch(0, batch);
        }
        let outputs: Vec<u16> =
            batch.iter().map(|packet| (!self.count(cx, packet, port == 1)).into()).collect();
        cx.route_by(batch, &outputs);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        // One input may feed two outputs.
        let input = if cx.router().input_kind(cx.element(), port).is_some() { port } else { 0 };
        cx.pull(input, max, batch);
        batch.iter().for_each(|packet| _ = self.count(cx, packet, port == 1));
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        let mut before = old.counts.lock();
        let mut counts = self.counts.lock();
        counts.by_aggregate = std::mem::take(&mut before.by_aggregate);
        counts.sum = before.sum;
        counts.uncounted = before.uncounted;
    }

    fn footprint(&self) -> Footprint {
        let most = self.ends_at.map_or(self.capacity, |at| at.min(self.capacity));
        Footprint::hash_table(most, size_of::<(u32, u32)>())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        for (name, format) in [
            ("write_text_file", Format::Text),
            ("write_ascii_file", Format::Text),
            ("write_ip_file", Format::Addresses),
            ("write_pdf_file", Format::Parts),
            ("write_file", Format::Binary),
        ] {
            handlers.write(name, move |counter, call| counter.write_file(call, format));
        }
        handlers.read("count", |counter, _| counter.counts.lock().sum);
        handlers.read("nagg", |counter, _| counter.counts.lock().by_aggregate.len() as u64);
        handlers.read("uncounted", |counter, _| counter.counts.lock().uncounted);
        handlers.read("freeze", |counter, _| counter.frozen.load(Relaxed));
        handlers.write("freeze", |counter, call| {
            counter.frozen.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.read("active", |counter, _| counter.active.load(Relaxed));
        handlers.write("active", |counter, call| {
            counter.active.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.write("stop", |counter, call| {
            counter.active.store(false, Relaxed);
            call.router().request_stop();
            Ok(())
        });
        handlers.write("clear", |counter, _| {
            counter.counts.lock().clear();
            Ok(())
        });
        handlers.write("reaggregate_counts", |counter, _| {
            counter.counts.lock().reaggregate();
            Ok(())
        });
        handlers.read("banner", |counter, _| counter.banner.lock().clone());
        handlers.write("banner", |counter, call| {
            *counter.banner.lock() = match call.bytes() {
                b"" | b"\n" => Vec::new(),
                text if text.ends_with(b"\n") => text.to_vec(),
                text => [text, b"\n"].concat(),
            };
            Ok(())
        });
        call_handlers(handlers, "aggregate_call", |counts| &mut counts.aggregate_call);
        call_handlers(handlers, "count_call", |counts| &mut counts.count_call);
    }
}

/// Reads the keywords PREFIX_FREEZE, PREFIX_STOP and PREFIX_CALL, at most one of which may be given. The number is that
/// of the first two.
fn one_call(setup: &mut Setup<'_>, prefix: &str) -> (Option<Trigger>, Option<u64>) {
    let name = setup.name().to_owned();
    let args = &mut setup.args;
    let (mut calls, mut ends_at) = (Vec::new(), None);
    for (word, handler) in [("FREEZE", "freeze true"), ("STOP", "stop")] {
        if let Some(at) = args.read::<u64>(&format!("{prefix}_{word}"), Kind::Keyword) {
            ends_at = Some(at);
            match parse(&format!("{at} {name}.{handler}"), args.scope()) {
                Ok(trigger) => calls.push(trigger),
                Err(message) => args.error((), message),
            }
        }
    }
    calls.extend(args.read(&format!("{prefix}_CALL"), Kind::Keyword));
    if calls.len() > 1 {
        let message = format!(
            "‘{prefix}_FREEZE’, ‘{prefix}_STOP’, and ‘{prefix}_CALL’ are mutually exclusive"
        );
        args.error((), message);
    }
    (calls.pop(), ends_at)
}

fn call_handlers(
    handlers: &mut Handlers<AggregateCounter>,
    name: &'static str,
    trigger: fn(&mut Counts) -> &mut Option<Trigger>,
) {
    handlers.read(name, move |counter, _| {
        trigger(&mut counter.counts.lock())
            .as_ref()
            .map(|it| it.text().to_owned())
            .unwrap_or_default()
    });
    handlers.write(name, move |counter, call| {
        let text = call.text();
        let new = if text.is_empty() { None } else { Some(call.parse()?) };
        *trigger(&mut counter.counts.lock()) = new;
        Ok(())
    });
}

impl AggregateCounter {
    /// Counts a packet; returns whether it was counted.
    fn count(&self, cx: &Context, packet: &Packet, freeze: bool) -> bool {
        loop {
            if !self.active.load(Relaxed) {
                return false;
            }
            let frozen = freeze || self.frozen.load(Relaxed);
            let amount = self.unit.of(packet);
            let counted =
                self.counts.lock().count(packet.aggregate(), amount, frozen, self.capacity);
            match counted {
                Counted::Done(counts, call) => {
                    if let Some(call) = call {
                        call.pull(cx);
                    }
                    return counts;
                }
                Counted::After(call) => call.pull(cx),
            }
        }
    }

    fn write_file(&self, call: &Call<'_>, format: Format) -> Result<(), HandlerError> {
        let name: FileName = call.parse().map_err(|_| "argument should be filename")?;
        let failed =
            |error: io::Error| HandlerError::from(format!("{}: {}", name.0, os_error_text(&error)));
        if name.0 == "-" {
            return self.write_to(&mut standard_output::for_data().lock(), format).map_err(failed);
        }
        let mut file = BufWriter::new(File::create(name.as_path()).map_err(failed)?);
        self.write_to(&mut file, format).and_then(|()| file.flush()).map_err(failed)
    }

    fn write_to(&self, out: &mut impl Write, format: Format) -> io::Result<()> {
        let counts = self.counts.lock();
        writeln!(out, "!IPAggregate 1.0")?;
        let banner = self.banner.lock();
        out.write_all(&banner)?;
        if banner.last().is_some_and(|&last| last != b'\n') {
            writeln!(out)?;
        }
        writeln!(out, "!num_nonzero {}", counts.by_aggregate.len())?;
        match format {
            Format::Binary => writeln!(out, "!packed_le")?,
            Format::Addresses => writeln!(out, "!ip")?,
            Format::Text | Format::Parts => {}
        }
        let mut sorted: Vec<(u32, u32)> =
            counts.by_aggregate.iter().map(|(aggregate, count)| (*aggregate, *count)).collect();
        sorted.sort_unstable();
        for (aggregate, count) in sorted {
            match format {
                Format::Text => writeln!(out, "{aggregate} {count}")?,
                Format::Addresses => {
                    writeln!(out, "{} {count}", std::net::Ipv4Addr::from_bits(aggregate))?;
                }
                Format::Parts => {
                    let part = f64::from(count) / counts.sum as f64;
                    let part = millrace_core::element::IntoText::into_text(part);
                    writeln!(out, "{aggregate} {}", String::from_utf8_lossy(&part))?;
                }
                Format::Binary => {
                    out.write_all(&aggregate.to_le_bytes())?;
                    out.write_all(&count.to_le_bytes())?;
                }
            }
        }
        Ok(())
    }
}

impl Unit {
    fn of(&self, packet: &Packet) -> u32 {
        match self {
            Unit::Packets { with_extra } => {
                1_u32.wrapping_add(if *with_extra { packet.extra_packets() } else { 0 })
            }
            Unit::Bytes(length) => {
                length.of(packet.len(), packet.extra_length(), packet.network_offset())
            }
        }
    }
}

impl Counts {
    fn count(&mut self, aggregate: u32, amount: u32, frozen: bool, capacity: usize) -> Counted {
        match self.by_aggregate.get_mut(&aggregate) {
            Some(count) => *count = count.wrapping_add(amount),
            None if frozen => return Counted::Done(false, None),
            None if amount == 0 => {}
            None => {
                let known = self.by_aggregate.len() as u64;
                if let Some(call) = self.aggregate_call.take_if(|call| known >= call.at) {
                    return Counted::After(call);
                }
                if known >= capacity as u64 {
                    self.uncounted += 1;
                    return Counted::Done(false, None);
                }
                self.by_aggregate.insert(aggregate, amount);
            }
        }
        self.sum += u64::from(amount);
        let sum = self.sum;
        Counted::Done(true, self.count_call.take_if(|call| sum >= call.at))
    }

    fn clear(&mut self) {
        self.by_aggregate.clear();
        self.sum = 0;
        self.uncounted = 0;
    }

    fn reaggregate(&mut self) {
        let old = std::mem::take(&mut self.by_aggregate);
        self.sum = old.len() as u64;
        for count in old.into_values() {
            *self.by_aggregate.entry(count).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    fn of(aggregate: u32, len: usize) -> Packet {
        let mut packet = Packet::with_len(len).unwrap();
        packet.set_aggregate(aggregate);
        packet
    }

    #[test]
    fn a_full_table_counts_the_aggregates_that_it_knows() {
        let mut rig = Rig::new("AggregateCounter(CAPACITY 2)", 1, 2).unwrap();
        let out = rig.push_packets(0, [1, 2, 3, 1, 4, 2].map(|number| of(number, 60)).into());
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
        let read = ["count", "nagg", "uncounted"].map(|name| rig.read(name).unwrap());
        assert_eq!(read, ["4", "2", "2"]);
        rig.write("clear", "").unwrap();
        rig.push_packets(0, vec![of(3, 60)]);
        assert_eq!(["count", "uncounted"].map(|name| rig.read(name).unwrap()), ["1", "0"]);
    }

    proptest! {
        /// Compares with counts kept in a list.
        #[test]
        fn counts_match_counts_kept_in_a_list(packets in prop::collection::vec((0_u32..6, 1_usize..90), 0..60)) {
            let mut rig = Rig::new("AggregateCounter(BYTES true)", 1, 1).unwrap();
            let mut counts = [0; 6];
            for (aggregate, len) in &packets {
                counts[*aggregate as usize] += len;
                rig.push_packets(0, vec![of(*aggregate, *len)]);
            }
            let file = tempfile::NamedTempFile::new().unwrap();
            rig.write("write_text_file", file.path().to_str().unwrap()).unwrap();
            let lines = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let lines: Vec<String> = lines.map(|(aggregate, count)| format!("{aggregate} {count}")).collect();
            let head = ["!IPAggregate 1.0".to_owned(), format!("!num_nonzero {}", lines.len())];
            let text = std::fs::read_to_string(file.path()).unwrap();
            prop_assert_eq!(text.lines().map(str::to_owned).collect::<Vec<_>>(), [&head[..], &lines].concat());
            prop_assert_eq!(rig.read("count").unwrap(), counts.iter().sum::<usize>().to_string());
        }
    }
}
