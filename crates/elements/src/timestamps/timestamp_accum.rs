//! TimestampAccum - measures the latency of packets by their timestamps
//!
//! # Synopsis
//! `TimestampAccum()`
//!
//! # Description
//! Passes packets unchanged and adds up the time elapsed since each packet's timestamp.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count` (read): number of packets passed.
//! - `time` (read): the sum of the elapsed times, in seconds.
//! - `average_time` (read): the average elapsed time, in seconds; 0 before the first packet.
//! - `min`, `max` (read): the shortest and the longest elapsed time, in seconds.
//! - `reset_counts` (write): resets all of these values to 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(RATE 10, LIMIT 5) -> SetTimestamp -> DelayUnqueue(20ms) -> a :: TimestampAccum -> Discard;
//! ```
//!
//! # See also
//! SetTimestamp, TimestampDiff, AverageCounter

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Lock, Setup, register};

/// The element; its manual is at the top of the file.
pub struct TimestampAccum {
    times: Lock<Times>,
}

/// In seconds.
#[derive(Clone, Copy, Default)]
struct Times {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

register!(TimestampAccum, "timestamp_accum.rs");

impl Element for TimestampAccum {
    const CLASS: Class = Class::new("TimestampAccum", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { times: Lock::default() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let now = cx.refresh_now();
        let mut times = self.times.lock();
        for packet in batch.iter() {
            times.add((now - packet.timestamp()).as_secs_f64());
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |it, _| it.times.lock().count);
        handlers.read("time", |it, _| it.times.lock().sum);
        handlers.read("average_time", |it, _| {
            let Times { count, sum, .. } = *it.times.lock();
            if count == 0 { 0.0 } else { sum / count as f64 }
        });
        handlers.read("min", |it, _| it.times.lock().min);
        handlers.read("max", |it, _| it.times.lock().max);
        handlers.write("reset_counts", |it, _| {
            *it.times.lock() = Times::default();
            Ok(())
        });
    }
}

impl Times {
    fn add(&mut self, time: f64) {
        if self.count == 0 {
            (self.min, self.max) = (time, time);
        }
        self.count += 1;
        self.sum += time;
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }
}
