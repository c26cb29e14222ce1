//! FlowSwitch - balances flows over its outputs
//!
//! # Synopsis
//! `FlowSwitch([keywords MODE, LST_MODE, WEIGHT, CAPACITY])`
//!
//! # Description
//! Chooses an output for each flow when its first packet arrives; all packets of the flow leave by that output. Flows
//! are identified as in FlowCounter, and forgotten after 60 seconds of silence.
//!
//! # Arguments
//! - MODE: how outputs are chosen. `rr`: round-robin. `wrr`: round-robin, each as often as its WEIGHT. `hash`: by a
//!   hash of addresses and ports. `hash_agg`: by the AGGREGATE annotation. `least`: the one with the fewest flows.
//!   Default `rr`.
//! - LST_MODE: what `least` compares; only `conn`, the number of flows, is supported.
//! - WEIGHT: how often an output gets a flow in mode `wrr`. Given once for each output, in order.
//! - CAPACITY: maximum number of flows. Keyword, default 1048576.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! - `load` (read): the number of flows of each output that are not forgotten.
//! - `nb_total_servers` (read): the number of outputs.
//!
//! # Drops
//! - no match: all weights are 0.
//! - table full: the flow is new, and there are CAPACITY flows.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager -> s :: FlowSwitch(MODE hash);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! FlowRoundRobinSwitch, FlowIPLoadBalancer, HashSwitch

use millrace_core::{
    Class, Element, Failed, Footprint, Handlers, Init, Moment, PerPacket, Reason, Setup, View, Way,
    register,
};

use super::balance::{Balance, IDLE, SWEEP};
use super::capacity::capacity;
use super::key::Key;
use super::table::{Fixed, Flows, millis};

/// The element; its manual is at the top of the file.
pub struct FlowSwitch {
    /// The output of each flow.
    flows: Flows<Key, Fixed>,
    balance: Balance,
}

register!(FlowSwitch, "flow_switch.rs");

impl Element for FlowSwitch {
    const CLASS: Class = Class::new("FlowSwitch", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let balance = Balance::configure(&mut setup.args, outputs);
        let capacity = capacity(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { flows: Flows::new(capacity, IDLE, SWEEP), balance })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if old.balance.targets() == self.balance.targets() {
            self.flows.take(&old.flows);
            self.balance.take(&old.balance);
        }
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("load", |switch, call| {
            switch
                .flows
                .count(millis(call.now()), |output| switch.balance.release(output as usize));
            switch.balance.loads()
        });
        handlers.read("nb_total_servers", |switch, _| switch.balance.targets());
    }
}

impl PerPacket for FlowSwitch {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let mut refusal = Reason::TableFull;
        let new = || self.balance.pick_or(packet, &mut refusal);
        let gone = |output| self.balance.release(output as usize);
        let now = millis(at.now());
        let output = self.flows.number(at, Key::of(packet), now, new, gone);
        match output {
            Some(output) => Way::output(output as u16),
            None => Way::drop(refusal),
        }
    }
}
