//! FastUDPFlows - makes packets of many UDP flows as fast as they are pulled
//!
//! # Synopsis
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE])`
//!
//! # Description
//! Gives UDP packets with Ethernet and IP headers, for measurements. There are FLOWS flows at a time, with
//! random ports; each packet is of a random one. A flow of which FLOWSIZE packets have been sent gets new
//! ports. The data is zeros.
//!
//! # Arguments
//! - RATE: packets a second, up to a million; 0 is as many as are asked for. Positional, mandatory.
//! - LIMIT: how many packets are sent; less than 0 is no limit. Positional, mandatory.
//! - LENGTH: bytes of a packet, with its Ethernet header; 60 at least. Positional, mandatory.
//! - SRCETH: source Ethernet address. Positional, mandatory.
//! - SRCIP: source address. Positional, mandatory.
//! - DSTETH: destination Ethernet address. Positional, mandatory.
//! - DSTIP: destination address. Positional, mandatory.
//! - FLOWS: how many flows there are at a time, up to four million. Positional, mandatory.
//! - FLOWSIZE: packets of a flow. Positional, mandatory.
//! - CHECKSUM: whether to compute UDP checksums. Positional, default true.
//! - ACTIVE: whether packets are given. Positional, default true.
//!
//! # Ports
//! One pull output.
//!
//! # Handlers
//! - `count` (read): packets sent.
//! - `rate` (read): packets a second that were reached over LIMIT packets; 0 before they are sent.
//! - `rate` (write): RATE; 0 sends none.
//! - `limit` (write): LIMIT.
//! - `reset` (write): counts from 0 again.
//! - `active` (write): ACTIVE. When true is written, it counts from 0 again.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FastUDPFlows(0, 1000, 64, 0:0:0:1:1:1, 1.0.0.1, 0:0:0:2:2:2, 2.0.0.2, 100, 10)
//!     -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! FastUDPSource, FastTCPFlows

use std::net::Ipv4Addr;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Setup, register,
};

use super::fast_source::{FastSource, Frame, Given, MOST_FLOWS, random_port};
use super::fast_udp_source::udp_packet;

/// The element; its manual is at the top of the file.
pub struct FastUdpFlows {
    source: FastSource,
    frame: Frame,
    flow_size: u32,
    checksum: bool,
    flows: Lock<Vec<Flow>>,
}

/// A flow: its ports, and how many packets of it have been sent.
#[derive(Clone, Copy)]
struct Flow {
    ports: (u16, u16),
    sent: u32,
}

impl Flow {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self { ports: (random_port(random), random_port(random)), sent: 0 }
    }
}

register!(FastUdpFlows, "fast_udp_flows.rs");

impl Element for FastUdpFlows {
    const CLASS: Class = Class::new("FastUDPFlows", "0/1", "/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let given = Given::read(args);
        let ether = args.mandatory("DSTETH");
        let destination: Ipv4Addr = args.mandatory("DSTIP");
        let flows: u32 = args.mandatory("FLOWS");
        let flow_size = args.mandatory("FLOWSIZE");
        let checksum = args.positional("CHECKSUM", true);
        let active = args.positional("ACTIVE", true);
        if !(1..=MOST_FLOWS).contains(&flows) {
            args.error("FLOWS", format!("FLOWS must be between 1 and {MOST_FLOWS}"));
        }
        let (source, frame) = given.finish(args, (ether, destination), active);
        args.complete()?;
        let mut random = fastrand::Rng::new();
        let flows = Lock::new((0..flows).map(|_| Flow::random(&mut random)).collect());
        Ok(Self { source, frame, flow_size, checksum, flows })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.source.initialize(init);
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let now = cx.refresh_now();
        let mut sending = self.source.sending();
        let mut flows = self.flows.lock();
        while batch.len() < max && !sending.is_exhausted() && sending.is_due(now) {
            let at = cx.random().usize(..flows.len());
            let Some(flow) = flows.get_mut(at) else { return };
            if flow.sent == self.flow_size {
                *flow = Flow::random(cx.random());
            }
            flow.sent = flow.sent.wrapping_add(1);
            let Some(packet) = udp_packet(&self.frame, flow.ports, self.checksum) else { return };
            sending.sent(cx, now);
            // There is room: it was asked for.
            let _ = batch.push(packet);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        FastSource::handlers(handlers, |element| &element.source);
    }
}
