//! AverageBatchCounter - measures the average batch size
//!
//! # Synopsis
//! `AverageBatchCounter([INTERVAL, keyword LENGTH_STATS])`
//!
//! # Description
//! Forwards packets, and counts the packets and the batches in which they arrive. Every INTERVAL milliseconds it
//! records the counts of the last interval, which the handlers report. The totals cover the intervals before that one.
//!
//! # Arguments
//! - INTERVAL: milliseconds, at least 1. Positional, default 1000.
//! - LENGTH_STATS: whether to measure the lengths of packets too. They are read from the AGGREGATE annotation, which
//!   AggregateLength sets. Default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `average`, `average_total` (read): average packets per batch.
//! - `count_packets`, `count_packets_total` (read): number of packets.
//! - `count_batches`, `count_batches_total` (read): number of batches.
//! - `average_frame_len`, `average_frame_len_total` (read): average bytes per packet.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(BURST 8, LIMIT 80) -> c :: AverageBatchCounter(100) -> Discard;
//! DriverManager(wait_time 150ms, print c.average, stop);
//! ```
//!
//! # See also
//! AverageCounter, Counter, MinBatch, AggregateLength

use std::sync::MutexGuard;

use millrace_core::args::Kind;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Lock, PerThread, Refused, Setup,
    Timer, Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct AverageBatchCounter {
    interval: Timestamp,
    measures: bool,
    /// Batches, packets and bytes since the start.
    counts: [PerThread<Count>; 3],
    noted: Lock<Noted>,
    timer: Timer,
}

/// The recorded counts, each of batches, packets and bytes.
#[derive(Clone, Copy, Default)]
struct Noted {
    last: [u64; 3],
    total: [u64; 3],
    /// The counts at the end of the last interval.
    seen: [u64; 3],
}

register!(AverageBatchCounter, "average_batch_counter.rs");

impl Element for AverageBatchCounter {
    const CLASS: Class = Class::new("AverageBatchCounter", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let interval = setup.args.in_range("INTERVAL", Kind::Positional, 1..=i32::MAX);
        let measures = setup.args.keyword("LENGTH_STATS", false);
        setup.args.complete()?;
        Ok(Self {
            interval: Timestamp::from_millis(interval.unwrap_or(1000).into()),
            measures,
            counts: Default::default(),
            noted: Lock::default(),
            timer: setup.timer(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.timer.schedule_at(init.clock().now() + self.interval);
        Ok(())
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let [batches, packets, bytes] = &self.counts;
        batches.mine(cx).add(1);
        packets.mine(cx).add(batch.len() as u64);
        if self.measures {
            bytes.mine(cx).add(batch.iter().map(|packet| u64::from(packet.aggregate())).sum());
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let counts = self.counts.each_ref().map(PerThread::total);
        let mut noted = self.noted();
        for (at, count) in counts.into_iter().enumerate() {
            noted.total[at] = noted.total[at].wrapping_add(noted.last[at]);
            noted.last[at] = count.wrapping_sub(noted.seen[at]);
        }
        noted.seen = counts;
        self.timer.schedule_at(cx.now() + self.interval);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        type Figures = fn(&Noted) -> [u64; 3];
        let figures: [(&str, Figures); 2] =
            [("", |noted| noted.last), ("_total", |noted| noted.total)];
        for (suffix, of) in figures {
            let name = |name: &str| format!("{name}{suffix}");
            handlers.read(&name("average"), move |counter, _| {
                let [batches, packets, _] = of(&counter.noted());
                packets as f64 / batches.max(1) as f64
            });
            handlers.read(&name("count_packets"), move |counter, _| of(&counter.noted())[1]);
            handlers.read(&name("count_batches"), move |counter, _| of(&counter.noted())[0]);
            handlers.read(&name("average_frame_len"), move |counter, _| {
                let [_, packets, bytes] = of(&counter.noted());
                bytes as f64 / packets.max(1) as f64
            });
        }
    }
}

impl AverageBatchCounter {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock()
    }
}
