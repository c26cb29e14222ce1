//! IP6Encap - prepends an IPv6 header to packets
//!
//! # Synopsis
//! `IP6Encap(PROTO, SRC, DST [, keywords HLIM, CLASS])`
//!
//! # Description
//! Prepends an IPv6 header to each packet, with next header PROTO, source SRC and destination DST, and sets the IPv6
//! destination annotation to DST. To build a tunnel, use PROTO 41 for IPv6 packets or PROTO 4 for IPv4 packets.
//!
//! # Arguments
//! - PROTO: next header, by number or name. Positional, mandatory.
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address, or `DST_ANNO` to use each packet's IPv6 destination annotation. Positional, mandatory.
//! - HLIM: hop limit. Keyword, default 250.
//! - CLASS: traffic class, 0 to 255. Keyword, default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `dst` (read, write): DST.
//!
//! # Drops
//! - too big: the packet is longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IP6Encap(41, 2001:db8::1, 2001:db8::2, HLIM 64)
//!     -> CheckIP6Header
//!     -> Discard;
//! ```
//!
//! # See also
//! UDPIP6Encap, IPEncap, CheckIP6Header

use millrace_core::args::IpProtocol;
use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Published, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use super::header::outer::{OuterHeader, address_handlers};

/// The element; its manual is at the top of the file.
pub struct Ip6Encap {
    outer: Published<OuterHeader>,
}

register!(Ip6Encap, "ip6_encap.rs");

impl Element for Ip6Encap {
    const CLASS: Class = Class::new("IP6Encap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let IpProtocol(next_header) = args.mandatory("PROTO");
        let source = args.mandatory("SRC");
        let destination = args.mandatory("DST");
        let hop_limit = args.keyword("HLIM", 250);
        let traffic_class = args.keyword("CLASS", 0);
        args.complete()?;
        let outer = OuterHeader { source, destination, next_header, hop_limit, traffic_class };
        Ok(Self { outer: Published::new(outer) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let outer = self.outer.load();
        batch.map_filter(|mut packet| {
            let len = packet.len();
            let Some(header) = outer.for_packet(&mut packet, len) else {
                return cx.drop(packet, Reason::TooBig);
            };
            packet.push_front(header.as_bytes());
            packet.set_network_header(0, Ipv6Header::LEN);
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        address_handlers(handlers, |element| &element.outer);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip6::{Datagram, withstands};

    #[test]
    fn arguments_set_the_header() {
        let config = "IP6Encap(17, 2001:db8::1, 2001:db8:1:2:3:4:5:6, HLIM 64, CLASS 0xa5)";
        let mut rig = Rig::new(config, 1, 1).unwrap();
        let inner = Datagram { traffic_class: 0xa5, ..Datagram::default() };
        let packet = Packet::from_bytes(&inner.payload).unwrap();
        let out = rig.push_packets(0, vec![packet]).remove(0);
        assert_eq!(out[0].data(), inner.bytes());
        assert_eq!(out[0].dst_ip6(), Datagram::DESTINATION);
        assert_eq!((out[0].network_offset(), out[0].transport_offset()), (Some(0), Some(40)));
    }

    #[test]
    fn the_annotation_can_be_the_destination() {
        let mut rig = Rig::new("IP6Encap(41, ::1, DST_ANNO)", 1, 1).unwrap();
        let mut packet = Packet::from_bytes(b"data").unwrap();
        packet.set_dst_ip6(Datagram::DESTINATION);
        let out = rig.push_packets(0, vec![packet]).remove(0);
        assert_eq!(out[0].data()[24..40], Datagram::DESTINATION.octets());
        rig.write("dst", "2001:db8::9").unwrap();
        assert_eq!(rig.read("dst").unwrap(), "2001:db8::9");
        assert!(rig.write("src", "10.0.0.1").is_err());
        rig.push(0, &[vec![0; 65_536]]);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands("IP6Encap(41, ::1, DST_ANNO)", 1);
    }
}
