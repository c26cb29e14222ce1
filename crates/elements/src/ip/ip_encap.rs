//! IPEncap - prepends an IPv4 header to packets
//!
//! # Synopsis
//! `IPEncap(PROTO, SRC, DST [, keyword TTL, DSCP, ECT, CE, TOS, DF])`
//!
//! # Description
//! Prepends an IP header with protocol PROTO, source SRC and destination DST to each packet, and sets the destination
//! annotation to DST. Use it for tunnels (IP in IP), and for packets that already have a transport header. The
//! identification counts up from 0. The header's length and checksum are computed.
//!
//! # Arguments
//! - PROTO: IP protocol by number or name. Positional, mandatory.
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address, or `DST_ANNO` for each packet's destination annotation. Positional, mandatory.
//! - TTL: time to live. Keyword, default 250.
//! - DSCP: Differentiated Services code point, 0 to 63. Keyword, default 0.
//! - ECT: whether to mark the transport as ECN-capable (RFC 3168): true or 1 for ECT(1), 2 for ECT(0). Keyword, default
//!   false.
//! - CE: whether to set the "congestion experienced" mark. Keyword, default false.
//! - TOS: the whole type-of-service byte, instead of DSCP, ECT and CE. Keyword, default 0.
//! - DF: whether to set the don't-fragment flag. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `dst` (read, write): DST.
//! - `config` (read, write): the arguments; all may change while packets run.
//!
//! # Drops
//! - too big: with the header, the packet would exceed 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IPEncap(ipip, 18.26.4.24, 140.247.60.147, TTL 64, DF true)
//!     -> CheckIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! UDPIPEncap, StripIPHeader

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::args::{Args, IpProtocol, Kind, Raw};
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Published, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use super::header::outer::{Choice, Destination, OuterHeader, source_handler};

/// The element; its manual is at the top of the file.
pub struct IpEncap {
    outer: Published<OuterHeader>,
    /// The next identification.
    id: AtomicU16,
}

register!(IpEncap, "ip_encap.rs");

impl Element for IpEncap {
    const CLASS: Class = Class::new("IPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let IpProtocol(protocol) = args.mandatory("PROTO");
        let source = args.mandatory("SRC");
        let destination = args.mandatory("DST");
        let ttl = args.keyword("TTL", 250);
        let tos = read_tos(args);
        let dont_fragment = args.keyword("DF", false);
        args.complete()?;
        let choice = Choice { protocol, source, destination, tos, ttl, dont_fragment };
        Ok(Self { outer: Published::new(OuterHeader::new(&choice)), id: AtomicU16::new(0) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let outer = self.outer.load();
        // A batch has at most 256 packets.
        let mut id = self.id.fetch_add(batch.len() as u16, Relaxed);
        batch.map_filter(|mut packet| {
            let len = packet.len();
            let Some(header) = outer.for_packet(&mut packet, len, id) else {
                return cx.drop(packet, Reason::TooBig);
            };
            id = id.wrapping_add(1);
            packet.push_front(header.as_bytes());
            packet.set_network_header(0, Ipv4Header::LEN);
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|element, new| {
            element.outer.store(new.outer.load());
            Ok(())
        });
        source_handler(handlers, |element: &Self| &element.outer);
        handlers.read("dst", |element, _| element.outer.load().destination().to_string());
        handlers.write("dst", |element, call| {
            let destination: Destination = call.parse()?;
            element.outer.update(|outer| outer.with_destination(destination));
            Ok(())
        });
    }
}

/// Reads the type-of-service byte, as a whole or in parts.
fn read_tos(args: &mut Args<'_>) -> u8 {
    let tos: Option<u8> = args.optional_keyword("TOS");
    let dscp: Option<u8> = args.in_range("DSCP", Kind::Keyword, 0..=63);
    let Raw(ect) = args.keyword("ECT", Raw("0".into()));
    let ect = match ect.as_str() {
        "2" => 2,
        other => match millrace_core::args::parse::<bool>(other, args.scope()) {
            Ok(capable) => capable.into(),
            Err(_) => {
                args.error("ECT", format!("bad ECT value '{other}'"));
                0
            }
        },
    };
    let ce: bool = args.keyword("CE", false);
    if tos.is_some() && dscp.is_some() {
        args.error("TOS", "cannot set both TOS and DSCP");
    }
    if tos.is_some() && (ect > 0 || ce) {
        args.error("TOS", "cannot set both TOS and ECN bits");
    }
    if ect > 0 && ce {
        args.error("CE", "can set at most one ECN option");
    }
    let ecn = if ce { 3 } else { ect };
    tos.unwrap_or(dscp.unwrap_or(0) << 2 | ecn)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{read, withstands};

    #[test]
    fn the_header_is_as_configured() {
        let mut rig = Rig::new("IPEncap(ipip, 18.26.4.24, 140.247.60.147)", 1, 1).unwrap();
        let packets = [&b"one"[..], b"", b"three"].map(|data| Packet::from_bytes(data).unwrap());
        let out = rig.push_packets(0, packets.into()).remove(0);
        for (n, (packet, data)) in out.iter().zip([&b"one"[..], b"", b"three"]).enumerate() {
            let (header, payload) = read(packet.data());
            assert_eq!(payload, data);
            assert_eq!((header.source, header.destination), ([18, 26, 4, 24], [140, 247, 60, 147]));
            assert_eq!((header.protocol.0, header.time_to_live), (4, 250));
            assert_eq!(usize::from(header.identification), n);
            assert!(!header.dont_fragment);
            assert_eq!(packet.dst_ip(), Ipv4Addr::new(140, 247, 60, 147));
            assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(0), Some(20)));
        }
    }

    #[test]
    fn the_fields_can_be_chosen() {
        let tos = |arguments: &str| {
            let element = format!("IPEncap(4, 1.0.0.1, 2.0.0.2, {arguments})");
            let out = Rig::new(&element, 1, 1).unwrap().push(0, &["x"]);
            let (header, _) = read(&out[0][0]);
            (out[0][0][1], header.time_to_live, header.dont_fragment)
        };
        assert_eq!(tos("TTL 3, DF true"), (0, 3, true));
        assert_eq!(tos("DSCP 63"), (63 << 2, 250, false));
        assert_eq!(tos("DSCP 1, ECT true"), (1 << 2 | 1, 250, false));
        assert_eq!(tos("ECT 2").0, 2);
        assert_eq!(tos("CE true").0, 3);
        assert_eq!(tos("TOS 0x47").0, 0x47);
        for wrong in
            ["TOS 1, DSCP 1", "TOS 1, CE true", "ECT 1, CE 1", "DSCP 64", "ECT 3", "TOS 256"]
        {
            let element = format!("IPEncap(4, 1.0.0.1, 2.0.0.2, {wrong})");
            assert!(Rig::new(&element, 1, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_destination_can_come_from_the_annotation() {
        let mut rig = Rig::new("IPEncap(udp, 1.0.0.1, DST_ANNO)", 1, 1).unwrap();
        let mut packet = Packet::from_bytes(b"data").unwrap();
        packet.set_dst_ip([9, 8, 7, 6].into());
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!(read(out[0][0].data()).0.destination, [9, 8, 7, 6]);
        assert_eq!(out[0][0].dst_ip(), Ipv4Addr::new(9, 8, 7, 6));
        assert_eq!(rig.read("dst").unwrap(), "DST_ANNO");
    }

    #[test]
    fn addresses_can_be_changed() {
        let mut rig = Rig::new("IPEncap(udp, 1.0.0.1, DST_ANNO, TTL 9)", 1, 1).unwrap();
        rig.write("src", "3.3.3.3").unwrap();
        rig.write("dst", "4.4.4.4").unwrap();
        assert!(rig.write("dst", "nowhere").is_err());
        assert_eq!(
            (rig.read("src").unwrap(), rig.read("dst").unwrap()),
            ("3.3.3.3".into(), "4.4.4.4".into())
        );
        let out = rig.push(0, &["x"]);
        let (header, _) = read(&out[0][0]);
        assert_eq!((header.source, header.destination), ([3; 4], [4; 4]));
        assert_eq!(header.time_to_live, 9);
    }

    #[test]
    fn packets_too_long_for_the_length_field_are_dropped() {
        let mut rig = Rig::new("IPEncap(udp, 1.0.0.1, 2.0.0.2)", 1, 1).unwrap();
        let out = rig.push(0, &[vec![0; 65_515], vec![0; 65_516]]);
        assert_eq!(out[0].len(), 1);
        read(&out[0][0]);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands("IPEncap(udp, 1.0.0.1, DST_ANNO)", 1);
    }
}
