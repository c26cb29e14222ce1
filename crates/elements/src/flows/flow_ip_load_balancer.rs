//! FlowIPLoadBalancer - balances flows over servers by rewriting the destination IP address
//!
//! # Synopsis
//! `FlowIPLoadBalancer(VIP, DST d1, DST d2, ..., [keywords MODE, LST_MODE, WEIGHT, CAPACITY])`
//!
//! # Description
//! Chooses a server for each flow when its first packet arrives, and writes the server's address into the destination
//! address and the destination annotation of all packets of the flow. Checksums of IP, TCP and UDP headers are updated.
//! Source addresses do not change, so replies must pass through the element's counterpart, FlowIPLoadBalancerReverse,
//! which sets their source address to VIP.
//!
//! Flows are identified as in FlowCounter, and forgotten after 60 seconds of silence.
//!
//! # Arguments
//! - VIP: the address under which clients reach the servers. Positional, mandatory.
//! - DST: the address of a server. Mandatory, may be repeated.
//! - MODE, LST_MODE, WEIGHT: how servers are chosen, as in FlowSwitch.
//! - CAPACITY: maximum number of flows. Keyword, default 1048576.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `load` (read): the number of flows of each server.
//! - `nb_total_servers` (read): the number of servers.
//!
//! # Drops
//! - header not set: the packet has no IP header.
//! - no match: all weights are 0.
//! - table full: the flow is new, and there are CAPACITY flows.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager
//!     -> FlowIPLoadBalancer(VIP 10.0.0.1, DST 10.1.0.1, DST 10.1.0.2) -> Discard;
//! ```
//!
//! # See also
//! FlowIPLoadBalancerReverse, FlowSwitch, FlowIPManager, RoundRobinIPMapper, IPRewriter

use std::net::Ipv4Addr;
use std::sync::Arc;

use millrace_core::{
    Class, Element, Failed, Footprint, Handlers, Init, Moment, Offers, PerPacket, Reason, Setup,
    View, Way, register,
};

use super::balance::address::{Which, write};
use super::balance::{Balance, IDLE, SWEEP};
use super::capacity::capacity;
use super::key::Key;
use super::table::{Fixed, Flows, millis};
use crate::capability::VirtualAddress;

/// The element; its manual is at the top of the file.
pub struct FlowIpLoadBalancer {
    address: Ipv4Addr,
    servers: Vec<Ipv4Addr>,
    /// The server of each flow.
    flows: Flows<Key, Fixed>,
    balance: Balance,
}

register!(FlowIpLoadBalancer, "flow_ip_load_balancer.rs");

impl Element for FlowIpLoadBalancer {
    const CLASS: Class =
        Class::new("FlowIPLoadBalancer", "1/1", "h/h").aliases(&["IPLoadBalancer"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let servers: Vec<Ipv4Addr> = setup.args.repeated("DST");
        let address = setup.args.mandatory("VIP");
        let balance = Balance::configure(&mut setup.args, servers.len());
        let capacity = capacity(&mut setup.args);
        setup.args.complete()?;
        if servers.is_empty() {
            setup.args.error((), "DST: required argument missing");
            return Err(Failed);
        }
        Ok(Self { address, servers, flows: Flows::new(capacity, IDLE, SWEEP), balance })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn VirtualAddress>(self.clone());
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if old.servers == self.servers {
            self.flows.take(&old.flows);
            self.balance.take(&old.balance);
        }
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("load", |balancer, call| {
            let gone = |server| balancer.balance.release(server as usize);
            balancer.flows.count(millis(call.now()), gone);
            balancer.balance.loads()
        });
        handlers.read("nb_total_servers", |balancer, _| balancer.servers.len());
    }
}

impl VirtualAddress for FlowIpLoadBalancer {
    fn virtual_address(&self) -> Ipv4Addr {
        self.address
    }
}

impl PerPacket for FlowIpLoadBalancer {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let mut refusal = Reason::TableFull;
        let new = || self.balance.pick_or(packet, &mut refusal);
        let gone = |server| self.balance.release(server as usize);
        let key = Key::of(packet);
        let server = self.flows.number(at, key, millis(at.now()), new, gone);
        let Some(&server) = server.and_then(|server| self.servers.get(server as usize)) else {
            return Way::drop(refusal);
        };
        if !write(packet, Which::Destination, server) {
            return Way::drop(Reason::NoHeader);
        }
        packet.set_dst_ip(server);
        Way::ON
    }
}
