//! SetIPChecksum - computes and stores the IP header checksum
//!
//! # Synopsis
//! `SetIPChecksum`
//!
//! # Description
//! Computes the checksum of each packet's IP header and stores it in the header. The header is at the network header
//! position, or at the start of the packet if that position is not set.
//!
//! Elements that change IP headers (DecIPTTL, IPRewriter) update the checksum themselves. Use SetIPChecksum for headers
//! written in other ways.
//!
//! A message is printed for the first bad packet.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `drops` (read): number of packets without a complete IP header.
//!
//! # Drops
//! - truncated: the header has less than 20 bytes.
//! - bad header length: the header length field is less than 20 bytes, or exceeds the packet.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 01000001 02000002>, LIMIT 10)
//!     -> SetIPChecksum
//!     -> CheckIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, DecIPTTL, SetUDPChecksum, SetTCPChecksum

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
#[derive(Default)]
pub struct SetIpChecksum {
    drops: PerThread<Count>,
    reported: AtomicBool,
}

register!(SetIpChecksum, "set_ip_checksum.rs");

impl Element for SetIpChecksum {
    const CLASS: Class = Class::new("SetIPChecksum", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self::default())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

impl PerPacket for SetIpChecksum {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match Ipv4Header::fill_checksum(header(packet)) {
            true => Way::ON,
            false => Way::aside(0),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, _way: Way) -> Option<Packet> {
        self.reject(cx, packet)
    }
}

impl SetIpChecksum {
    #[cold]
    fn reject(&self, cx: &mut Context, packet: Packet) -> Option<Packet> {
        if !self.reported.swap(true, Relaxed) {
            cx.router().chatter("SetIPChecksum: bad input packet");
        }
        self.drops.mine(cx).add(1);
        let bytes = packet.network_data().unwrap_or(packet.data());
        let too_short = bytes.len() < Ipv4Header::LEN;
        cx.drop(packet, if too_short { Reason::Truncated } else { Reason::BadHeaderLength })
    }
}

/// The bytes from the IP header on.
#[inline(always)]
fn header(packet: &mut View) -> &mut [u8] {
    match packet.network_header() {
        Some(_) => packet.network_data_mut().unwrap_or_default(),
        None => packet.data_mut(),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{Datagram, withstands};

    #[test]
    fn computes_what_etherparse_does() {
        let datagram = Datagram { options: vec![1, 1, 1, 0], ..Datagram::default() };
        let mut bytes = datagram.bytes();
        bytes[10..12].copy_from_slice(&[0xaa, 0xbb]);
        let framed = [&[0x45; 14], bytes.as_slice()].concat();
        let mut marked = Packet::from_bytes(&framed).unwrap();
        marked.set_network_header(14, 24);
        let mut rig = Rig::new("SetIPChecksum", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![Packet::from_bytes(&bytes).unwrap(), marked]);
        assert_eq!(out[0][0].data(), datagram.bytes());
        assert_eq!(out[0][1].network_data(), Some(datagram.bytes().as_slice()));
    }

    #[test]
    fn packets_with_incomplete_headers_are_dropped() {
        let mut rig = Rig::new("SetIPChecksum", 1, 1).unwrap();
        let whole = Datagram::default().bytes();
        let mut low = whole.clone();
        low[0] = 0x44;
        let mut high = whole.clone();
        high[0] = 0x4f;
        let out = rig.push(0, &[&whole[..19], &low, &high, &whole]);
        assert_eq!(out[0], [whole]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1), (Reason::BadHeaderLength, 2)]);
        assert_eq!(rig.read("drops").unwrap(), "3");
    }

    #[test]
    fn withstands_anything() {
        withstands("SetIPChecksum", 1);
    }
}
