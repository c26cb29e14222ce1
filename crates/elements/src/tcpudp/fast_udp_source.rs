//! FastUDPSource - generates UDP packets for measurements
//!
//! # Synopsis
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM, INTERVAL,
//! ACTIVE])`
//!
//! # Description
//! Emits UDP packets with Ethernet and IP headers, for measurements. The payload is zeros, the identification is 0, and
//! the time to live is 250.
//!
//! # Arguments
//! - RATE: packets per second, up to a million; 0 for as many as are pulled. Positional, mandatory.
//! - LIMIT: number of packets to send; negative for no limit. Positional, mandatory.
//! - LENGTH: length of a packet in bytes, including its Ethernet header; at least 60. Positional, mandatory.
//! - SRCETH: source Ethernet address. Positional, mandatory.
//! - SRCIP: source address. Positional, mandatory.
//! - SPORT: source port, by number or name. Positional, mandatory.
//! - DSTETH: destination Ethernet address. Positional, mandatory.
//! - DSTIP: destination address. Positional, mandatory.
//! - DPORT: destination port, by number or name. Positional, mandatory.
//! - CHECKSUM: whether to compute the UDP checksum. Positional, default true.
//! - INTERVAL: number of packets after which both ports increase by one; 0 for never. Positional, default 0.
//! - ACTIVE: whether to emit packets. Positional, default true.
//!
//! # Ports
//! One pull output.
//!
//! # Handlers
//! - `count` (read): packets sent.
//! - `rate` (read): packets per second achieved over LIMIT packets; 0 until they are sent.
//! - `rate` (write): RATE; 0 sends none.
//! - `limit` (write): LIMIT.
//! - `reset` (write): restarts the count at 0.
//! - `active` (write): ACTIVE. Writing true restarts the count at 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FastUDPSource(1000, 100, 64, 0:0:0:1:1:1, 1.0.0.1, 1234, 0:0:0:2:2:2, 2.0.0.2, 1234)
//!     -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! FastUDPFlows, FastTCPFlows, InfiniteSource, UDPIPEncap

use std::net::Ipv4Addr;

use millrace_core::args::UdpPort;
use millrace_core::headers::{Header, UdpHeader, protocol};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Refused, Setup, register,
};
use zerocopy::IntoBytes;

use super::fast_source::{FastSource, Frame, Given};

/// The element; its manual is at the top of the file.
pub struct FastUdpSource {
    source: FastSource,
    frame: Frame,
    ports: (u16, u16),
    checksum: bool,
    interval: u32,
}

register!(FastUdpSource, "fast_udp_source.rs");

impl Element for FastUdpSource {
    const CLASS: Class = Class::new("FastUDPSource", "0/1", "/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let given = Given::read(args);
        let UdpPort(src_port) = args.mandatory("SPORT");
        let ether = args.mandatory("DSTETH");
        let destination: Ipv4Addr = args.mandatory("DSTIP");
        let UdpPort(dst_port) = args.mandatory("DPORT");
        let checksum = args.positional("CHECKSUM", true);
        let interval = args.positional("INTERVAL", 0);
        let active = args.positional("ACTIVE", true);
        let (source, frame) = given.finish(args, (ether, destination), active);
        args.complete()?;
        Ok(Self { source, frame, ports: (src_port, dst_port), checksum, interval })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.source.initialize(init);
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let now = cx.refresh_now();
        let mut sending = self.source.sending();
        while batch.len() < max && !sending.is_exhausted() && sending.is_due(now) {
            let step = sending.count.checked_div(self.interval).unwrap_or(0) as u16;
            let (src_port, dst_port) = self.ports;
            let ports = (src_port.wrapping_add(step), dst_port.wrapping_add(step));
            let Some(packet) = udp_packet(&self.frame, ports, self.checksum) else { return };
            sending.sent(cx, now);
            // There is room: the batch is shorter than `max`.
            let _ = batch.push(packet);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        FastSource::handlers(handlers, |element| &element.source);
    }
}

/// A UDP packet.
pub(super) fn udp_packet(
    frame: &Frame,
    (src_port, dst_port): (u16, u16),
    checksum: bool,
) -> Option<Packet> {
    let mut udp = UdpHeader {
        src_port: src_port.into(),
        dst_port: dst_port.into(),
        len: frame.data_len().into(),
        checksum: 0.into(),
    };
    let (mut packet, sum) = frame.packet(protocol::UDP, udp.as_bytes())?;
    if checksum {
        udp.checksum.set(sum.finish_udp());
        *UdpHeader::view_mut(packet.transport_data_mut()?)?.0 = udp;
    }
    Some(packet)
}
