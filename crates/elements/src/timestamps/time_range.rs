//! TimeRange - records the earliest and latest packet timestamps
//!
//! # Synopsis
//! `TimeRange([keyword SIMPLE])`
//!
//! # Description
//! Passes packets unchanged and records the earliest and the latest of their timestamps. Timestamps of 0 are ignored.
//!
//! # Arguments
//! - SIMPLE: whether to assume that timestamps never decrease, so that the first is the earliest and the last is the
//!   latest. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `first`, `last` (read): the earliest and the latest timestamp, 0.0 before the first packet.
//! - `range` (read): both, with a space between.
//! - `interval` (read): the time between the two.
//! - `reset` (write): forgets both.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> r :: TimeRange -> Discard;
//! DriverManager(wait, print r.interval);
//! ```
//!
//! # See also
//! TimeFilter, SetTimestamp

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Lock, Setup, Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct TimeRange {
    simple: bool,
    range: Lock<Range>,
}

#[derive(Clone, Copy, Default)]
struct Range {
    first: Timestamp,
    last: Timestamp,
}

register!(TimeRange, "time_range.rs");

impl Element for TimeRange {
    const CLASS: Class = Class::new("TimeRange", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let simple = setup.args.keyword("SIMPLE", false);
        setup.args.complete()?;
        Ok(Self { simple, range: Lock::default() })
    }

    fn process(&self, _cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let mut range = self.range.lock();
        for time in batch.iter().map(|packet| packet.timestamp()).filter(|time| !time.is_zero()) {
            if range.first.is_zero() || (!self.simple && time < range.first) {
                range.first = time;
            }
            if self.simple || range.last.is_zero() || time > range.last {
                range.last = time;
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("first", |it, _| it.range.lock().first.to_string());
        handlers.read("last", |it, _| it.range.lock().last.to_string());
        handlers.read("range", |it, _| {
            let Range { first, last } = *it.range.lock();
            format!("{first} {last}")
        });
        handlers.read("interval", |it, _| {
            let Range { first, last } = *it.range.lock();
            (last - first).to_string()
        });
        handlers.write("reset", |it, _| {
            *it.range.lock() = Range::default();
            Ok(())
        });
    }
}

impl TimeRange {}
