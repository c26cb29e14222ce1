//! RIPSend - sends RIP version 2 advertisements of a route
//!
//! # Synopsis
//! `RIPSend(SRC, DST, PREFIX, METRIC)`
//!
//! # Description
//! Sends RIP version 2 responses (RFC 2453) from SRC to DST that advertise one route with next hop SRC: the first
//! response after three seconds, then one every 30 seconds. The packets are UDP/IP packets from port 520 to port 520
//! with a time to live of 200.
//!
//! # Arguments
//! - SRC: source address and next hop. Positional, mandatory.
//! - DST: destination address, such as 224.0.0.9. Positional, mandatory.
//! - PREFIX: the advertised network, `ADDR/LENGTH`. Positional, mandatory.
//! - METRIC: the route's metric, usually 1 to 15. Positional, mandatory.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RIPSend(18.26.4.24, 224.0.0.9, 10.0.0.0/8, 1) -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, TimedSource

use std::net::Ipv4Addr;

use millrace_core::args::Ipv4Network;
use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, Ipv4Header, UdpHeader, protocol};
use millrace_core::{
    Class, Context, Element, Failed, Init, Packet, Refused, Setup, Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct RipSend {
    message: Vec<u8>,
    timer: Timer,
}

register!(RipSend, "rip_send.rs");

impl Element for RipSend {
    const CLASS: Class = Class::new("RIPSend", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let source: Ipv4Addr = setup.args.mandatory("SRC");
        let destination: Ipv4Addr = setup.args.mandatory("DST");
        let Ipv4Network(network) = setup.args.mandatory("PREFIX");
        let metric: u32 = setup.args.mandatory("METRIC");
        setup.args.complete()?;
        // A version 2 response; one route of address family IP.
        let entry = [
            0x0202_0000,
            0x0002_0000,
            network.address().to_bits(),
            network.mask().to_bits(),
            source.to_bits(),
            metric,
        ];
        let rip: Vec<u8> = entry.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        Ok(Self { message: datagram(source, destination, &rip), timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.timer.schedule_at(init.clock().now() + FIRST);
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        if let Some(mut packet) = Packet::from_bytes(&self.message) {
            packet.set_network_header(0, Ipv4Header::LEN);
            cx.created(1);
            cx.push(0, packet);
        }
        self.timer.schedule_at(cx.now() + INTERVAL);
    }
}

/// The delay before the first message, and between messages.
const FIRST: Timestamp = Timestamp::from_secs(3);
const INTERVAL: Timestamp = Timestamp::from_secs(30);

/// RIP's port.
const PORT: u16 = 520;

fn datagram(source: Ipv4Addr, destination: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let udp_len = (UdpHeader::LEN + data.len()) as u16;
    let ip = Ipv4Header {
        version_ihl: 0x45,
        tos: 0,
        total_len: (udp_len + Ipv4Header::LEN as u16).into(),
        id: 0.into(),
        flags_fragment: 0.into(),
        ttl: 200,
        protocol: protocol::UDP,
        checksum: 0.into(),
        src: source.octets(),
        dst: destination.octets(),
    };
    let mut udp = UdpHeader {
        src_port: PORT.into(),
        dst_port: PORT.into(),
        len: udp_len.into(),
        checksum: 0.into(),
    };
    let sum = Sum::of_pseudo_v4(source, destination, protocol::UDP, udp_len);
    udp.checksum.set(sum.add_bytes(udp.as_bytes()).add_bytes(data).finish_udp());
    let mut bytes = [ip.as_bytes(), udp.as_bytes(), data].concat();
    Ipv4Header::fill_checksum(&mut bytes);
    bytes
}
