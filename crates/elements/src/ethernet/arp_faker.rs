//! ARPFaker - sends an unsolicited ARP reply periodically
//!
//! # Synopsis
//! `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//!
//! # Description
//! Sends an ARP reply to DSTIP at DSTETH, claiming that SRCIP is at SRCETH: the first after one second,
//! then one every ten seconds.
//!
//! # Arguments
//! - DSTIP: the IP address of the reply's target. Positional, mandatory.
//! - DSTETH: the Ethernet address of the reply's target. Positional, mandatory.
//! - SRCIP: the IP address that the reply is about. Positional, mandatory.
//! - SRCETH: the Ethernet address that the reply gives for it. Positional, mandatory.
//!
//! # Ports
//! No input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: there was no packet for a reply.
//!
//! # Example
//! ```click
//! ARPFaker(10.0.0.1, 1:1:1:1:1:1, 10.0.0.2, 2:2:2:2:2:2) -> ARPPrint -> Discard;
//! ```
//!
//! # See also
//! ARPResponder, ARPQuerier

use std::net::Ipv4Addr;

use millrace_core::headers::{ArpHeader, EthernetHeader, Header, U16, arp_operation, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Class, Context, Element, Failed, Init, Packet, Reason, Refused, Setup, Timer, Timestamp,
    register,
};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct ArpFaker {
    frame: EthernetHeader,
    message: ArpHeader,
    timer: Timer,
}

register!(ArpFaker, "arp_faker.rs");

impl Element for ArpFaker {
    const CLASS: Class = Class::new("ARPFaker", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let target_ip: Ipv4Addr = args.mandatory("DSTIP");
        let target: EtherAddress = args.mandatory("DSTETH");
        let sender_ip: Ipv4Addr = args.mandatory("SRCIP");
        let sender: EtherAddress = args.mandatory("SRCETH");
        args.complete()?;
        let frame =
            EthernetHeader { dst: target, src: sender, ether_type: U16::new(ether_type::ARP) };
        let message =
            ArpHeader::new(arp_operation::REPLY, (sender, sender_ip), (target, target_ip));
        Ok(Self { frame, message, timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.timer.schedule_at(init.clock().now() + Timestamp::from_secs(1));
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        cx.created(1);
        match Packet::from_bytes(self.frame.as_bytes()) {
            Some(mut reply) => {
                reply.push_back(self.message.as_bytes());
                reply.set_link_header(0, EthernetHeader::LEN);
                cx.push(0, reply);
            }
            None => cx.dropped(1, Reason::NoBuffer),
        }
        self.timer.schedule_at(cx.now() + Timestamp::from_secs(10));
    }
}
