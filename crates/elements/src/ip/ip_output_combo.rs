//! IPOutputCombo - handles options, TTL, redirects and MTU on a router's output path
//!
//! # Synopsis
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! # Description
//! Equivalent to
//!
//! ```click-part
//! DropBroadcasts -> p :: PaintTee(COLOR) -> g :: IPGWOptions(IPADDR) -> FixIPSrc(IPADDR)
//!     -> d :: DecIPTTL -> l :: CheckLength(MTU) -> [0] output;
//! p[1] -> [1] output; g[1] -> [2] output; d[1] -> [3] output; l[1] -> [4] output;
//! ```
//!
//! # Arguments
//! - COLOR: the paint of packets that leave by the interface they arrived on, 0 to 255. Positional, mandatory.
//! - IPADDR: the address of the outgoing interface. Positional, mandatory.
//! - MTU: maximum length in bytes of packets that leave by output 0. Positional, mandatory.
//!
//! # Ports
//! One push input. Five push outputs: 0, packets to transmit; 1, a copy of each packet with paint COLOR, for an
//! ICMPError that sends redirects; 2, packets with bad options, with their parameter problem annotation set; 3, packets
//! whose time to live has expired; 4, packets longer than MTU, for an IPFragmenter.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - discarded: the packet arrived as a link-level broadcast or multicast.
//! - header not set: the packet's network header is not set.
//! - no buffer: there was no memory for a copy.
//!
//! # Example
//! ```click
//! out :: IPOutputCombo(1, 18.26.4.24, 1500);
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader -> out -> Discard;
//! out[1] -> ICMPError(18.26.4.24, redirect, host) -> Discard;
//! out[2] -> ICMPError(18.26.4.24, parameterproblem) -> Discard;
//! out[3] -> ICMPError(18.26.4.24, timeexceeded) -> Discard;
//! out[4] -> IPFragmenter(1500) -> Discard;
//! ```
//!
//! # See also
//! DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL, CheckLength, IPInputCombo

use std::net::Ipv4Addr;

use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Packet, PacketType, Reason, Setup, register,
};

use super::fix_ip_src::FixIpSrc;
use super::ip_gw_options::IpGwOptions;
use super::{network_header, network_header_mut};

/// The element; its manual is at the top of the file.
pub struct IpOutputCombo {
    color: u8,
    options: IpGwOptions,
    fix: FixIpSrc,
    mtu: usize,
}

register!(IpOutputCombo, "ip_output_combo.rs");

impl Element for IpOutputCombo {
    const CLASS: Class = Class::new("IPOutputCombo", "1/5", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let color = setup.args.mandatory("COLOR");
        let address: Ipv4Addr = setup.args.mandatory("IPADDR");
        let mtu: u32 = setup.args.mandatory("MTU");
        setup.args.complete()?;
        Ok(Self {
            color,
            options: IpGwOptions::of(address),
            fix: FixIpSrc::new(address),
            mtu: mtu as usize,
        })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        batch.map_filter(|packet| self.treat(cx, packet));
        cx.push_batch(0, batch);
    }
}

/// Outputs for packets that cannot simply be sent.
const REDIRECTED: usize = 1;
const WRONG_OPTIONS: usize = 2;
const TTL_EXPIRED: usize = 3;
const TOO_LONG: usize = 4;

impl IpOutputCombo {
    /// Processes a packet. Returns it if it is to be sent.
    #[inline]
    fn treat(&self, cx: &mut Context, mut packet: Packet) -> Option<Packet> {
        if matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast) {
            return cx.drop(packet, Reason::Discarded);
        }
        let Some(header_len) = network_header(&packet).map(Ipv4Header::header_len) else {
            return cx.drop(packet, Reason::NoHeader);
        };
        if packet.paint() == self.color {
            cx.created(1);
            match packet.share() {
                Some(copy) => cx.push(REDIRECTED, copy),
                None => cx.dropped(1, Reason::NoBuffer),
            }
        }
        if header_len > Ipv4Header::LEN
            && let Err(wrong) = self.options.sign(&mut packet, cx.now())
        {
            packet.set_icmp_param_prob(wrong);
            cx.push(WRONG_OPTIONS, packet);
            return None;
        }
        if packet.fix_ip_src() {
            self.fix.fix(&mut packet);
        }
        match network_header_mut(&mut packet) {
            Some(ip) if ip.ttl > 1 => ip.decrement_ttl(),
            _ => {
                cx.push(TTL_EXPIRED, packet);
                return None;
            }
        }
        if packet.len() > self.mtu {
            cx.push(TOO_LONG, packet);
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("IPOutputCombo(1, 9.9.9.9, 60)", 5);
    }
}
