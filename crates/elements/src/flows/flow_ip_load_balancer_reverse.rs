//! FlowIPLoadBalancerReverse - rewrites the source address of servers' replies to the virtual IP
//!
//! # Synopsis
//! `FlowIPLoadBalancerReverse(LB)`
//!
//! # Description
//! Replaces the source address of packets with the VIP of a FlowIPLoadBalancer. Checksums of IP, TCP and UDP headers
//! are updated.
//!
//! # Arguments
//! - LB: the FlowIPLoadBalancer. Positional, mandatory.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the packet has no IP header.
//!
//! # Example
//! ```click
//! lb :: FlowIPLoadBalancer(VIP 10.0.0.1, DST 10.1.0.1, DST 10.1.0.2);
//! FromDump(in.pcap, FORCE_IP true) -> lb -> Discard;
//! FromDump(out.pcap, FORCE_IP true) -> FlowIPLoadBalancerReverse(lb) -> Discard;
//! ```
//!
//! # See also
//! FlowIPLoadBalancer, IPRewriter

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use millrace_core::args::ElementRef;
use millrace_core::{
    Class, Element, Failed, Init, Moment, PerPacket, Reason, Refused, Setup, View, Way, register,
};

use super::balance::address::{Which, write};
use crate::capability::VirtualAddress;

/// The element; its manual is at the top of the file.
pub struct FlowIpLoadBalancerReverse {
    balancer: usize,
    address: OnceLock<Ipv4Addr>,
}

register!(FlowIpLoadBalancerReverse, "flow_ip_load_balancer_reverse.rs");

impl Element for FlowIpLoadBalancerReverse {
    const CLASS: Class =
        Class::new("FlowIPLoadBalancerReverse", "1/1", "h/h").aliases(&["IPLoadBalancerReverse"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ElementRef(balancer) = setup.args.mandatory("LB");
        setup.args.complete()?;
        Ok(Self { balancer, address: OnceLock::new() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let balancer = init.require::<dyn VirtualAddress>(self.balancer)?;
        // An element is initialised once.
        let _ = self.address.set(balancer.virtual_address());
        Ok(())
    }
}

impl PerPacket for FlowIpLoadBalancerReverse {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let address = self.address.get().copied();
        match address.is_some_and(|address| write(packet, Which::Source, address)) {
            true => Way::ON,
            false => Way::drop(Reason::NoHeader),
        }
    }
}
