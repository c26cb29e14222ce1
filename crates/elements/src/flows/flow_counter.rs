//! FlowCounter - counts flows and the packets per flow
//!
//! # Synopsis
//! `FlowCounter([keyword CAPACITY])`
//!
//! # Description
//! Forwards packets and counts the flows that they belong to: by the number that an upstream element such as
//! FlowIPManager has given the flow, or, if there is none, by addresses, ports and protocol. A flow ends after 15
//! seconds of silence. While there are CAPACITY open flows, new flows are not counted.
//!
//! # Arguments
//! - CAPACITY: maximum number of flows. Keyword, default 1048576.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `count` (read): flows that have begun.
//! - `open` (read): flows that have not ended.
//! - `uncounted` (read): packets of flows that were not counted because there was no room for them.
//! - `average` (read): the average number of packets of an ended flow.
//! - `lengths` (read): one line per length of ended flows: the number of packets, and how many flows had it.
//! - `reset` (write): starts counting from 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager -> c :: FlowCounter -> Discard;
//! DriverManager(wait, print c.count);
//! ```
//!
//! # See also
//! FlowIPManager, AggregateCounter

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Footprint, Handlers, Init, Lock, Moment, PerPacket, Setup, View, Way,
    register,
};

use super::capacity::capacity;
use super::key::Key;
use super::table::{Changing, Flows, millis};

/// The element; its manual is at the top of the file.
pub struct FlowCounter {
    /// The packets of each flow.
    flows: Flows<Key, Changing<u64>>,
    begun: AtomicU64,
    /// Packets of flows for which there was no room.
    uncounted: AtomicU64,
    /// The number of ended flows, by their number of packets.
    lengths: Lock<BTreeMap<u64, u64>>,
}

register!(FlowCounter, "flow_counter.rs");

impl Element for FlowCounter {
    const CLASS: Class = Class::new("FlowCounter", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity = capacity(&mut setup.args);
        setup.args.complete()?;
        let flows = Flows::new(capacity, 15_000, 1000);
        Ok(Self { flows, begun: 0.into(), uncounted: 0.into(), lengths: Lock::default() })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.flows.take(&old.flows);
        self.begun.store(old.begun.load(Relaxed), Relaxed);
        self.uncounted.store(old.uncounted.load(Relaxed), Relaxed);
        *self.lengths() = std::mem::take(&mut *old.lengths());
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |counter, _| counter.begun.load(Relaxed));
        handlers.read("open", |counter, call| counter.open(millis(call.now())));
        handlers.read("uncounted", |counter, _| counter.uncounted.load(Relaxed));
        handlers.read("average", |counter, call| {
            counter.open(millis(call.now()));
            let lengths = counter.lengths();
            let flows: u64 = lengths.values().sum();
            let packets: u64 = lengths.iter().map(|(packets, flows)| packets * flows).sum();
            packets as f64 / flows.max(1) as f64
        });
        handlers.read("lengths", |counter, call| {
            counter.open(millis(call.now()));
            let mut text = String::new();
            for (packets, flows) in &*counter.lengths() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{packets} {flows}");
            }
            text
        });
        handlers.write("reset", |counter, _| {
            counter.flows.clear();
            counter.begun.store(0, Relaxed);
            counter.uncounted.store(0, Relaxed);
            counter.lengths().clear();
            Ok(())
        });
    }
}

impl PerPacket for FlowCounter {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let new = || {
            self.begun.fetch_add(1, Relaxed);
            Some(0)
        };
        let gone = |packets| self.note(packets);
        let now = millis(at.now());
        let count = |packets: &mut u64| *packets += 1;
        if self.flows.with(at, Key::of(packet), now, new, gone, count).is_none() {
            self.uncounted.fetch_add(1, Relaxed);
        }
        Way::ON
    }
}

impl FlowCounter {
    fn open(&self, now: u64) -> usize {
        self.flows.count(now, |packets| self.note(packets))
    }

    /// Records that a flow has ended.
    fn note(&self, packets: u64) {
        *self.lengths().entry(packets).or_default() += 1;
    }

    fn lengths(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.lengths.lock()
    }
}
