//! AverageCounter - counts packets and measures their average rate
//!
//! # Synopsis
//! `AverageCounter([IGNORE])`
//!
//! # Description
//! Passes packets on and counts them; knows the average rate between the first and the last
//! packet. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - IGNORE: seconds after the first packet during which packets are not counted. Positional,
//!   default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count`, `byte_count` (read): packets and bytes counted.
//! - `rate`, `byte_rate` (read): packets and bytes a second between first and last packet.
//! - `reset` (write): starts anew.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(RATE 100, LIMIT 10) -> AverageCounter -> Discard;
//! ```
//!
//! # See also
//! Counter

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, PerThread, Setup, register,
};

/// The element; its manual is at the top of the file.
#[derive(Default)]
pub struct AverageCounter {
    /// In milliseconds.
    ignore: u64,
    packets: PerThread<Count>,
    bytes: PerThread<Count>,
    /// The counts at the last reset.
    origin: [AtomicU64; 2],
    /// The millisecond of the first packet; 0 when there was none.
    first: AtomicU64,
    /// The millisecond of the last packet.
    last: AtomicU64,
}

register!(AverageCounter, "average_counter.rs");

impl Element for AverageCounter {
    const CLASS: Class = Class::new("AverageCounter", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let seconds: u32 = setup.args.positional("IGNORE", 0);
        setup.args.complete()?;
        Ok(Self { ignore: u64::from(seconds) * 1000, ..Self::default() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let now = cx.now().as_millis().max(1).unsigned_abs();
        if self.first.load(Relaxed) == 0 {
            // The first of several threads sets it.
            let _ = self.first.compare_exchange(0, now, Relaxed, Relaxed);
        }
        if now.saturating_sub(self.first.load(Relaxed)) >= self.ignore {
            self.packets.mine(cx).add(batch.len() as u64);
            self.bytes.mine(cx).add(batch.iter().map(|packet| packet.len() as u64).sum());
        }
        self.last.fetch_max(now, Relaxed);
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.origin[0].store(self.packets.total().wrapping_sub(old.count()), Relaxed);
        self.origin[1].store(self.bytes.total().wrapping_sub(old.byte_count()), Relaxed);
        self.first.store(old.first.load(Relaxed), Relaxed);
        self.last.store(old.last.load(Relaxed), Relaxed);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |counter, _| counter.count());
        handlers.read("byte_count", |counter, _| counter.byte_count());
        handlers.read("rate", |counter, _| counter.per_second(counter.count()));
        handlers.read("byte_rate", |counter, _| counter.per_second(counter.byte_count()));
        handlers.write("reset", |counter, _| {
            counter.origin[0].store(counter.packets.total(), Relaxed);
            counter.origin[1].store(counter.bytes.total(), Relaxed);
            counter.first.store(0, Relaxed);
            counter.last.store(0, Relaxed);
            Ok(())
        });
    }
}

impl AverageCounter {
    fn count(&self) -> u64 {
        self.packets.total().wrapping_sub(self.origin[0].load(Relaxed))
    }

    fn byte_count(&self) -> u64 {
        self.bytes.total().wrapping_sub(self.origin[1].load(Relaxed))
    }

    fn per_second(&self, count: u64) -> f64 {
        let passed = self.last.load(Relaxed).saturating_sub(self.first.load(Relaxed));
        let counted = passed.saturating_sub(self.ignore).max(1);
        count as f64 * 1000.0 / counted as f64
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn averages_between_the_first_and_the_last_packet() {
        let mut rig = Rig::new("AverageCounter", 1, 1).unwrap();
        rig.push(0, &["ab"]);
        rig.pass(Timestamp::from_millis(500));
        rig.push(0, &["ab", "ab"]);
        assert_eq!(rig.read("count").unwrap(), "3");
        assert_eq!(rig.read("rate").unwrap(), "6");
        assert_eq!(rig.read("byte_rate").unwrap(), "12");
        rig.write("reset", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
    }

    #[test]
    fn ignores_the_first_seconds() {
        let mut rig = Rig::new("AverageCounter(1)", 1, 1).unwrap();
        rig.push(0, &["a"]);
        rig.pass(Timestamp::from_secs(2));
        rig.push(0, &["b"]);
        assert_eq!(rig.read("count").unwrap(), "1");
    }
}
