//! MinBatch - collects packets and pushes them in batches of a minimum size
//!
//! # Synopsis
//! `MinBatch([BURST, TIMER])`
//!
//! # Description
//! Holds packets until it has at least BURST, then pushes them all. With TIMER, it also pushes them when no
//! packet has arrived for that time. When the router stops, it pushes what it holds.
//!
//! # Arguments
//! - BURST: minimum number of packets to push. Positional, default 32.
//! - TIMER: timeout after the last packet, in microseconds; negative for none. Positional, default -1.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100) -> MinBatch(8, 500) -> Discard;
//! ```
//!
//! # See also
//! Queue, Pipeliner, AverageBatchCounter

use std::collections::VecDeque;
use std::sync::MutexGuard;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Lock, Packet, Setup, Timer, Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct MinBatch {
    burst: usize,
    /// How long to wait for more packets.
    wait: Option<Timestamp>,
    kept: Lock<VecDeque<Packet>>,
    timer: Timer,
}

register!(MinBatch, "min_batch.rs");

impl Element for MinBatch {
    const CLASS: Class = Class::new("MinBatch", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let burst: u32 = setup.args.positional("BURST", 32);
        let timer: i32 = setup.args.positional("TIMER", -1);
        setup.args.complete()?;
        let wait = (timer >= 0).then(|| Timestamp::from_micros(timer.into()));
        Ok(Self { burst: burst as usize, wait, kept: Lock::default(), timer: setup.timer() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut kept = self.kept();
        kept.extend(batch.drain());
        if kept.len() >= self.burst {
            let packets = std::mem::take(&mut *kept);
            drop(kept);
            self.timer.unschedule();
            send(cx, packets);
        } else if let Some(wait) = self.wait {
            self.timer.schedule_at(cx.now() + wait);
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        self.drain(cx, &mut ());
    }

    fn drain(&self, cx: &mut Context, (): &mut ()) -> bool {
        let packets = std::mem::take(&mut *self.kept());
        send(cx, packets);
        false
    }

    fn held(&self) -> usize {
        self.kept().len()
    }
}

impl MinBatch {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Packet>> {
        self.kept.lock()
    }
}

fn send(cx: &mut Context, packets: VecDeque<Packet>) {
    let mut batch = cx.take_batch();
    for packet in packets {
        if let Err(packet) = batch.push(packet) {
            cx.push_batch(0, &mut batch);
            // There is room now.
            let _ = batch.push(packet);
        }
    }
    cx.push_batch(0, &mut batch);
    cx.give_batch(batch);
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Phase, Timestamp};

    #[test]
    fn holds_packets_until_there_are_enough() {
        let mut rig = Rig::new("MinBatch(3)", 1, 1).unwrap();
        assert!(rig.push(0, &["a", "b"])[0].is_empty());
        rig.pass(Timestamp::from_secs(9));
        assert_eq!(rig.push(0, &["c", "d"])[0].len(), 4);
        assert!(rig.push(0, &["e"])[0].is_empty());
        assert!(rig.stats().balanced());
    }

    #[test]
    fn a_stop_pushes_what_it_holds() {
        let mut rig = Rig::new("MinBatch(3)", 1, 1).unwrap();
        assert!(rig.push(0, &["a", "b"])[0].is_empty());
        let router = rig.router().clone();
        rig.stop();
        let stats = |name: &str| router.stats_of(router.find(name).unwrap());
        assert_eq!((stats("x").held, stats("catch0").consumed), (0, 2));
        assert_eq!(router.phase(), Phase::Draining);
    }
}
