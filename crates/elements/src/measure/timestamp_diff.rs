//! TimestampDiff - measures the latency of packets since a RecordTimestamp
//!
//! # Synopsis
//! `TimestampDiff(RECORDER [, keywords OFFSET, NET_ORDER, MAXDELAY, NANO, N, SAMPLE])`
//!
//! # Description
//! Reads the number that NumberPacket has written into each packet, and records how long ago the packet passed
//! RECORDER. Packets for which RECORDER has no time, and packets too short for a number, leave by output 1.
//!
//! # Arguments
//! - RECORDER: a RecordTimestamp element. Positional, mandatory.
//! - OFFSET: position of the number, in bytes from the start of the packet. Keyword, default 40.
//! - NET_ORDER: whether the number is in network byte order. Keyword, default false.
//! - MAXDELAY: milliseconds; longer latencies are reported and not recorded. Keyword, default 1000.
//! - NANO: whether handlers return nanoseconds instead of microseconds. Keyword, default false.
//! - N: the maximum number of latencies to record, 0 for any number; further packets are not measured. Keyword, default
//!   0.
//! - SAMPLE: measures only packets whose number is a multiple of SAMPLE, at least 1. Keyword, default 1.
//!
//! # Ports
//! One push input, one push output; an optional second one for packets that are not measured.
//!
//! # Handlers
//! Statistics are about all recorded latencies; with a number as parameter, about those from that one on, counted
//! from 0.
//! - `average`, `min`, `max`, `stddev` (read): statistics of the latencies, in microseconds; 0 without a packet.
//! - `median`, `perc00`, `perc01`, `perc05`, `perc10`, `perc25` (read): percentiles; -1 without a packet.
//! - `perc75`, `perc90`, `perc95`, `perc99`, `perc100` (read): likewise.
//! - `perc P` (read): any percentile.
//! - `perc P FIRST` (read): the same for the latencies from the one numbered FIRST on.
//! - `count`, `index` (read): the number of recorded latencies.
//! - `dump` (read): all latencies in the order in which they were recorded, one per line: `0: 5000`.
//! - `dump_list` (read): the same without their numbers.
//! - `reset` (write): discards them.
//!
//! # Drops
//! - unexpected: RECORDER has no time for the number, and output 1 is not connected.
//! - truncated: the packet is too short for a number, and output 1 is not connected.
//!
//! # Example
//! ```click
//! RatedSource(LENGTH 64, RATE 100, LIMIT 9)
//!     -> NumberPacket
//!     -> r :: RecordTimestamp(OFFSET 40)
//!     -> Queue
//!     -> DelayUnqueue(5ms)
//!     -> d :: TimestampDiff(r)
//!     -> Discard;
//! DriverManager(wait 1s, print d.average);
//! ```
//!
//! # See also
//! NumberPacket, RecordTimestamp, TimestampAccum

use std::sync::{Arc, OnceLock};

use millrace_core::args::{ArgText, Args, ElementRef, Kind};
use millrace_core::element::HandlerError;
use millrace_core::{
    Call, Class, Context, Element, Failed, Handlers, Init, Lock, Moment, Packet, PerPacket, Reason,
    Refused, Setup, Timestamp, View, Way, register,
};

use super::number_packet::NumberPlace;
use crate::capability::PacketTimes;

/// The element; its manual is at the top of the file.
pub struct TimestampDiff {
    recorder: ElementRef,
    record: OnceLock<Arc<dyn PacketTimes>>,
    place: NumberPlace,
    longest: Timestamp,
    /// Nanoseconds per unit of the handlers.
    unit: i64,
    /// The maximum number of latencies.
    most: usize,
    /// The distance between the numbers of packets that are measured.
    sample: u64,
    delays: Lock<Vec<u64>>,
}

register!(TimestampDiff, "timestamp_diff.rs");

/// The maximum of N: more would take gigabytes.
const MOST: u32 = 100_000_000;

/// The handlers with a percentile of their own.
const PERCENTILES: [(&str, f64); 11] = [
    ("perc00", 0.0),
    ("perc01", 1.0),
    ("perc05", 5.0),
    ("perc10", 10.0),
    ("perc25", 25.0),
    ("median", 50.0),
    ("perc75", 75.0),
    ("perc90", 90.0),
    ("perc95", 95.0),
    ("perc99", 99.0),
    ("perc100", 100.0),
];

impl Element for TimestampDiff {
    const CLASS: Class = Class::new("TimestampDiff", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let recorder = args.mandatory("RECORDER");
        let place = NumberPlace::configure(args, Kind::Keyword);
        let longest: u32 = args.keyword("MAXDELAY", 1000);
        let nano = args.keyword("NANO", false);
        let most = args.in_range("N", Kind::Keyword, 0..=MOST).unwrap_or(0) as usize;
        let sample = args.in_range("SAMPLE", Kind::Keyword, 1..=u32::MAX).unwrap_or(1);
        args.complete()?;
        Ok(Self {
            recorder,
            record: OnceLock::new(),
            place,
            longest: Timestamp::from_millis(longest.into()),
            unit: if nano { 1 } else { 1000 },
            most: if most == 0 { usize::MAX } else { most },
            sample: sample.into(),
            delays: Lock::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let _ = self.record.set(init.require(self.recorder.0)?);
        Ok(())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.try_read("average", |it, call| it.of_recent(call, mean));
        handlers.try_read("stddev", |it, call| {
            it.of_recent(call, |delays| {
                let mean = mean(delays);
                let squares =
                    delays.iter().map(|delay| (*delay as f64 - mean).powi(2)).sum::<f64>();
                if delays.is_empty() { 0.0 } else { (squares / delays.len() as f64).sqrt() }
            })
        });
        handlers.try_read("min", |it, call| {
            it.of_recent(call, |delays| delays.iter().min().copied().unwrap_or(0))
        });
        handlers.try_read("max", |it, call| {
            it.of_recent(call, |delays| delays.iter().max().copied().unwrap_or(0))
        });
        for name in ["count", "index"] {
            handlers.read(name, |it, _| it.delays.lock().len() as u64);
        }
        for (name, percent) in PERCENTILES {
            handlers.try_read(name, move |it, call| {
                it.of_recent(call, |delays| percentile(delays, percent))
            });
        }
        handlers.try_read("perc", |it, call| {
            let text = ArgText::new(call.text(), None, false);
            let mut args = Args::of_words(&text, call.scope());
            let percent: f64 = args.mandatory("PERCENT");
            let first: u32 = args.positional("FIRST", 0);
            args.complete().map_err(|_| HandlerError::Refused(args.messages()))?;
            match percent {
                0.0..=100.0 => Ok(percentile(from(&it.delays.lock(), first), percent)),
                _ => Err(HandlerError::from("out of range, should be between 0 and 100")),
            }
        });
        handlers.read("dump", |it, _| {
            let delays = it.delays.lock();
            delays.iter().enumerate().map(|(at, n)| format!("{at}: {n}\n")).collect::<String>()
        });
        handlers.read("dump_list", |it, _| {
            it.delays.lock().iter().map(|n| format!("{n}\n")).collect::<String>()
        });
        handlers.write("reset", |it, _| {
            it.delays.lock().clear();
            Ok(())
        });
    }
}

impl PerPacket for TimestampDiff {
    /// The clock is read for each packet, and only the engine can do that.
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::aside(0)
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, _: Way) -> Option<Packet> {
        let Some(number) = self.place.read(packet.data()) else {
            cx.push_or_drop(1, packet, Reason::Truncated);
            return None;
        };
        let Some(time) = self.record.get().and_then(|record| record.take(number)) else {
            cx.push_or_drop(1, packet, Reason::Unexpected);
            return None;
        };
        if !number.is_multiple_of(self.sample) {
            return Some(packet);
        }
        let delay = cx.refresh_now() - time;
        if delay > self.longest {
            let router = cx.router();
            let (name, micros) = (router.name_of(cx.element()), delay.as_micros());
            router.chatter(&format!("{name}: delay of packet {number} is too long: {micros} us"));
        } else {
            let mut delays = self.delays.lock();
            if delays.len() < self.most {
                delays.push((delay.as_nanos() / self.unit).max(0) as u64);
            }
        }
        Some(packet)
    }
}

impl TimestampDiff {
    /// A statistic of the latencies, or of those from the number on that a handler was called with.
    fn of_recent<T>(
        &self,
        call: &Call<'_>,
        statistic: impl FnOnce(&[u64]) -> T,
    ) -> Result<T, HandlerError> {
        let first: u32 = if call.text().is_empty() { 0 } else { call.parse()? };
        Ok(statistic(from(&self.delays.lock(), first)))
    }
}

/// The latencies from this number on.
fn from(delays: &[u64], first: u32) -> &[u64] {
    delays.get(first as usize..).unwrap_or_default()
}

fn mean(delays: &[u64]) -> f64 {
    match delays.len() {
        0 => 0.0,
        len => delays.iter().map(|delay| *delay as f64).sum::<f64>() / len as f64,
    }
}

/// The value below which this percentage of the values lies; -1 if there are none.
fn percentile(delays: &[u64], percent: f64) -> f64 {
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    let at = (percent * sorted.len() as f64 / 100.0) as usize;
    match sorted.get(at).or(sorted.last()) {
        Some(delay) => *delay as f64,
        None => -1.0,
    }
}
