//! FlowRoundRobinSwitch - distributes flows over its outputs round-robin
//!
//! # Synopsis
//! `FlowRoundRobinSwitch([keyword CAPACITY])`
//!
//! # Description
//! Sends the first flow to output 0, the next one to output 1, and after the last output starts again at 0. All packets
//! of a flow leave by the same output. Flows are identified as in FlowCounter, and forgotten after 60 seconds of
//! silence.
//!
//! # Arguments
//! - CAPACITY: maximum number of flows. Keyword, default 1048576.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - table full: the flow is new, and there are CAPACITY flows.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager -> s :: FlowRoundRobinSwitch;
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! FlowSwitch, FlowIPManager, RoundRobinSwitch

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Footprint, Init, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::balance::{IDLE, SWEEP};
use super::capacity::capacity;
use super::key::Key;
use super::table::{Fixed, Flows, millis};

/// The element; its manual is at the top of the file.
pub struct FlowRoundRobinSwitch {
    /// The output of each flow.
    flows: Flows<Key, Fixed>,
    next: AtomicUsize,
    outputs: usize,
}

register!(FlowRoundRobinSwitch, "flow_round_robin_switch.rs");

impl Element for FlowRoundRobinSwitch {
    const CLASS: Class =
        Class::new("FlowRoundRobinSwitch", "1/1-", "h/h").aliases(&["FlowRRSwitch"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity = capacity(&mut setup.args);
        setup.args.complete()?;
        let flows = Flows::new(capacity, IDLE, SWEEP);
        Ok(Self { flows, next: 0.into(), outputs: setup.outputs().max(1) })
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if old.outputs == self.outputs {
            self.flows.take(&old.flows);
            self.next.store(old.next.load(Relaxed), Relaxed);
        }
    }
}

impl PerPacket for FlowRoundRobinSwitch {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let new = || Some((self.next.fetch_add(1, Relaxed) % self.outputs) as u64);
        let now = millis(at.now());
        let output = self.flows.number(at, Key::of(packet), now, new, |_| ());
        match output {
            Some(output) => Way::output(output as u16),
            None => Way::drop(Reason::TableFull),
        }
    }
}
