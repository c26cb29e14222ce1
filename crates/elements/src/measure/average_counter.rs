//! AverageCounter - counts packets and bytes, and measures their average rates
//!
//! # Synopsis
//! `AverageCounter([IGNORE, LINK_FCS, keywords MAX, THRESHOLD])`
//!
//! # Description
//! Forwards packets and counts them. Computes the average rate between the first and the last packet. Time counts in
//! milliseconds, as in Click. FastClick's AverageCounterMP and AverageCounterIMP are other names for this element:
//! threads never wait for one another here.
//!
//! # Arguments
//! - IGNORE: seconds after the first packet during which packets are not counted. Positional, default 0.
//! - LINK_FCS: whether `link_count` and `link_rate` include the 4 bytes of the frame check sequence. Positional,
//!   default true.
//! - MAX: seconds after the first packet at which counting stops; 0 means never. Default 0.
//! - THRESHOLD: packets per second. When more than a second has passed and the rate is higher, all counts restart,
//!   once, and a line is printed. 0 means never. Default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count`, `byte_count` (read): number of packets and bytes.
//! - `bit_count`, `link_count` (read): number of bits, and of bits on an Ethernet link. The latter includes the
//!   preamble, the gap between frames, and with LINK_FCS the frame check sequence.
//! - `rate`, `byte_rate`, `bit_rate`, `link_rate` (read): these counts per second of `time`.
//! - `time` (read): seconds between the first and the last packet, minus IGNORE.
//! - `reset`, `reset_now` (write): restarts all counts.
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
    /// In milliseconds; `None` for no end.
    max: Option<u64>,
    /// Packets per second; 0 for none.
    threshold: AtomicU64,
    /// Bytes per packet on a link, in addition to its own.
    overhead: u64,
    packets: PerThread<Count>,
    bytes: PerThread<Count>,
    /// The counts at the last reset.
    origin: [AtomicU64; 2],
    /// The millisecond of the first packet; 0 if there was none.
    first: AtomicU64,
    /// The millisecond of the last packet.
    last: AtomicU64,
}

register!(AverageCounter, "average_counter.rs");

impl Element for AverageCounter {
    const CLASS: Class = Class::new("AverageCounter", "1/1", "a/a")
        .aliases(&["AverageCounterMP", "AverageCounterIMP"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ignore = setup.args.positional("IGNORE", 0.0f64);
        let fcs = setup.args.positional("LINK_FCS", true);
        let max: u32 = setup.args.keyword("MAX", 0);
        let threshold: u32 = setup.args.keyword("THRESHOLD", 0);
        setup.args.complete()?;
        Ok(Self {
            ignore: (ignore.max(0.0) * 1000.0) as u64,
            max: (max > 0).then_some(u64::from(max) * 1000),
            threshold: u64::from(threshold).into(),
            overhead: if fcs { 24 } else { 20 },
            ..Self::default()
        })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let now = cx.now().as_millis().max(1).unsigned_abs();
        if self.first.load(Relaxed) == 0 {
            // The first of several threads sets it.
            let _ = self.first.compare_exchange(0, now, Relaxed, Relaxed);
        }
        let passed = now.saturating_sub(self.first.load(Relaxed));
        if self.max.is_some_and(|max| passed >= max) {
            return;
        }
        if passed >= self.ignore {
            self.packets.mine(cx).add(batch.len() as u64);
            self.bytes.mine(cx).add(batch.iter().map(|packet| packet.len() as u64).sum());
        }
        self.last.fetch_max(now, Relaxed);
        let threshold = self.threshold.load(Relaxed);
        if threshold > 0 && passed > 1000 {
            let rate = self.count().saturating_mul(1000) / passed;
            if rate > threshold && self.threshold.swap(0, Relaxed) > 0 {
                let name = cx.router().name_of(cx.element()).to_owned();
                self.reset();
                cx.router().chatter(&format!("{name} : starting compute (rate {rate} pps)"));
            }
        }
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
        handlers.read("bit_count", |counter, _| counter.byte_count().wrapping_mul(8));
        handlers.read("link_count", |counter, _| counter.link_count());
        handlers.read("rate", |counter, _| counter.per_second(counter.count()));
        handlers.read("byte_rate", |counter, _| counter.per_second(counter.byte_count()));
        handlers.read("bit_rate", |counter, _| {
            counter.per_second(counter.byte_count().wrapping_mul(8))
        });
        handlers.read("link_rate", |counter, _| counter.per_second(counter.link_count()));
        handlers.read("time", |counter, _| counter.counted() as f64 / 1000.0);
        for name in ["reset", "reset_now"] {
            handlers.write(name, |counter, _| {
                counter.reset();
                Ok(())
            });
        }
    }
}

impl AverageCounter {
    fn count(&self) -> u64 {
        self.packets.total().wrapping_sub(self.origin[0].load(Relaxed))
    }

    fn byte_count(&self) -> u64 {
        self.bytes.total().wrapping_sub(self.origin[1].load(Relaxed))
    }

    /// Bits on an Ethernet link.
    fn link_count(&self) -> u64 {
        let overhead = self.count().wrapping_mul(self.overhead);
        self.byte_count().wrapping_add(overhead).wrapping_mul(8)
    }

    /// Milliseconds during which packets were counted, at least one.
    fn counted(&self) -> u64 {
        let passed = self.last.load(Relaxed).saturating_sub(self.first.load(Relaxed));
        passed.saturating_sub(self.ignore).max(1)
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1000.0 / self.counted() as f64
    }

    fn reset(&self) {
        self.origin[0].store(self.packets.total(), Relaxed);
        self.origin[1].store(self.bytes.total(), Relaxed);
        self.first.store(0, Relaxed);
        self.last.store(0, Relaxed);
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
