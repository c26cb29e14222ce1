//! UDPIPEncap - prepends UDP and IP headers to packets
//!
//! # Synopsis
//! `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//!
//! # Description
//! Prepends a UDP header and an IP header to each packet, from address SRC and port SPORT to address DST and port
//! DPORT, and sets the destination annotation to DST. The identification counts up from 0, and the time to live is 250.
//! Lengths and checksums are computed.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - SPORT: source port by number or name. Positional, mandatory.
//! - DST: destination address, or `DST_ANNO` to use each packet's destination annotation. Positional, mandatory.
//! - DPORT: destination port by number or name. Positional, mandatory.
//! - CHECKSUM: whether to compute the UDP checksum; if not, it is 0, which means that there is none. Positional,
//!   default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `sport` (read, write): SPORT.
//! - `dst` (read, write): DST.
//! - `dport` (read, write): DPORT.
//! - `config` (read, write): the arguments; all but CHECKSUM may change while packets run.
//!
//! # Drops
//! - too big: with the headers, the packet would be longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, domain)
//!     -> CheckIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! IPEncap, SetUDPChecksum, Strip

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::args::UdpPort;
use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, Ipv4Header, UdpHeader, protocol};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Packet, Published, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use crate::ip::header::outer::{Choice, Destination, OuterHeader};

/// The element; its manual is at the top of the file.
pub struct UdpIpEncap {
    outer: Published<UdpOuter>,
    checksum: bool,
    /// The next identification.
    id: AtomicU16,
}

register!(UdpIpEncap, "udp_ip_encap.rs");

impl Element for UdpIpEncap {
    const CLASS: Class = Class::new("UDPIPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let source = setup.args.mandatory("SRC");
        let UdpPort(src_port) = setup.args.mandatory("SPORT");
        let destination = setup.args.mandatory("DST");
        let UdpPort(dst_port) = setup.args.mandatory("DPORT");
        let checksum = setup.args.positional("CHECKSUM", true);
        setup.args.complete()?;
        let outer = UdpOuter::new((source, src_port), (destination, dst_port));
        let outer = Published::new(outer);
        Ok(Self { outer, checksum, id: AtomicU16::new(0) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let outer = self.outer.load();
        // A batch has at most 256 packets.
        let mut id = self.id.fetch_add(batch.len() as u16, Relaxed);
        batch.map_filter(|mut packet| {
            let Some(headers) = outer.headers(&mut packet, id, self.checksum) else {
                return cx.drop(packet, Reason::TooBig);
            };
            id = id.wrapping_add(1);
            packet.push_front(&headers);
            packet.set_network_header(0, Ipv4Header::LEN);
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|element, new| {
            if element.checksum != new.checksum {
                return Err("CHECKSUM cannot change while packets run".into());
            }
            element.outer.store(new.outer.load());
            Ok(())
        });
        handlers.read("src", |element, _| element.outer.load().ip.source());
        handlers.write("src", |element, call| {
            let source: Ipv4Addr = call.parse()?;
            element.change(|outer| outer.ip = outer.ip.with_source(source));
            Ok(())
        });
        handlers.read("sport", |element, _| element.outer.load().src_port);
        handlers.write("sport", |element, call| {
            let UdpPort(port) = call.parse()?;
            element.change(|outer| outer.src_port = port);
            Ok(())
        });
        handlers.read("dst", |element, _| element.outer.load().ip.destination().to_string());
        handlers.write("dst", |element, call| {
            let destination: Destination = call.parse()?;
            element.change(|outer| outer.ip = outer.ip.with_destination(destination));
            Ok(())
        });
        handlers.read("dport", |element, _| element.outer.load().dst_port);
        handlers.write("dport", |element, call| {
            let UdpPort(port) = call.parse()?;
            element.change(|outer| outer.dst_port = port);
            Ok(())
        });
    }
}

impl UdpIpEncap {
    fn change(&self, change: impl Fn(&mut UdpOuter)) {
        self.outer.update(|outer| {
            let mut outer = UdpOuter::clone(outer);
            change(&mut outer);
            outer
        });
    }
}

/// The header fields that differ between elements.
#[derive(Clone)]
pub(super) struct UdpOuter {
    pub(super) ip: OuterHeader,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
}

impl UdpOuter {
    pub(super) fn new(
        (source, src_port): (Ipv4Addr, u16),
        (destination, dst_port): (Destination, u16),
    ) -> Self {
        let ip = OuterHeader::new(&Choice {
            protocol: protocol::UDP,
            source,
            destination,
            tos: 0,
            ttl: 250,
            dont_fragment: false,
        });
        Self { ip, src_port, dst_port }
    }

    /// The headers for a packet; `None` if the datagram would be too long.
    #[inline(always)]
    pub(super) fn headers(
        &self,
        packet: &mut Packet,
        id: u16,
        checksum: bool,
    ) -> Option<[u8; HEADERS_LEN]> {
        let len = packet.len() + UdpHeader::LEN;
        let ip = self.ip.for_packet(packet, len, id)?;
        let mut udp = UdpHeader {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            // The datagram is shorter than the IP datagram, whose length was checked.
            len: (len as u16).into(),
            checksum: 0.into(),
        };
        if checksum {
            let (source, destination) = (ip.source(), ip.destination());
            let sum = Sum::of_pseudo_v4(source, destination, protocol::UDP, len as u16);
            let sum = sum.add_bytes(udp.as_bytes()).add_bytes(packet.data());
            udp.checksum.set(sum.finish_udp());
        }
        let mut headers = [0; HEADERS_LEN];
        let (ip_bytes, udp_bytes) = headers.split_at_mut(Ipv4Header::LEN);
        ip_bytes.copy_from_slice(ip.as_bytes());
        udp_bytes.copy_from_slice(udp.as_bytes());
        Some(headers)
    }
}

/// Length of both headers in bytes.
const HEADERS_LEN: usize = Ipv4Header::LEN + UdpHeader::LEN;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{has_right_transport_checksum, read, withstands};

    fn udp_header(bytes: &[u8]) -> etherparse::UdpHeader {
        etherparse::UdpHeader::from_slice(&read(bytes).1).unwrap().0
    }

    #[test]
    fn arguments_set_the_headers() {
        let mut rig = Rig::new("UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, domain)", 1, 1).unwrap();
        let packets = [&b"one"[..], b""].map(|data| Packet::from_bytes(data).unwrap());
        let out = rig.push_packets(0, packets.into()).remove(0);
        for (n, (packet, data)) in out.iter().zip([&b"one"[..], b""]).enumerate() {
            let (ip, payload) = read(packet.data());
            assert_eq!((ip.source, ip.destination), ([1, 0, 0, 1], [2, 0, 0, 2]));
            assert_eq!((ip.protocol.0, ip.time_to_live), (17, 250));
            assert_eq!(usize::from(ip.identification), n);
            let udp = udp_header(packet.data());
            assert_eq!((udp.source_port, udp.destination_port), (1234, 53));
            assert_eq!(usize::from(udp.length), 8 + data.len());
            assert_eq!(&payload[8..], data);
            assert!(has_right_transport_checksum(packet.data()));
            assert_eq!(packet.dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
            assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(0), Some(20)));
        }
    }

    #[test]
    fn the_checksum_is_optional_and_the_annotation_can_be_the_destination() {
        let mut rig = Rig::new("UDPIPEncap(1.0.0.1, 1, DST_ANNO, 2, false)", 1, 1).unwrap();
        let mut packet = Packet::from_bytes(b"data").unwrap();
        packet.set_dst_ip([9, 8, 7, 6].into());
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!(udp_header(out[0][0].data()).checksum, 0);
        assert_eq!(read(out[0][0].data()).0.destination, [9, 8, 7, 6]);
    }

    #[test]
    fn handlers_change_addresses_and_ports() {
        let mut rig = Rig::new("UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)", 1, 1).unwrap();
        let changes = [("src", "3.3.3.3"), ("sport", "33"), ("dst", "DST_ANNO"), ("dport", "44")];
        for (handler, value) in changes {
            rig.write(handler, value).unwrap();
            assert_eq!(rig.read(handler).unwrap(), value);
            assert!(rig.write(handler, "?").is_err());
        }
        let out = rig.push(0, &["x"]);
        let (ip, udp) = (read(&out[0][0]).0, udp_header(&out[0][0]));
        assert_eq!((ip.source, ip.destination), ([3; 4], [0; 4]));
        assert_eq!((udp.source_port, udp.destination_port), (33, 44));
        assert!(has_right_transport_checksum(&out[0][0]));
    }

    #[test]
    fn datagrams_longer_than_the_length_field_allows_are_dropped() {
        let mut rig = Rig::new("UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)", 1, 1).unwrap();
        let out = rig.push(0, &[vec![0; 65_507], vec![0; 65_508]]);
        assert_eq!(out[0].len(), 1);
        assert!(has_right_transport_checksum(&out[0][0]));
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }

    proptest! {
        #[test]
        fn the_checksum_agrees_with_etherparse(
            source: [u8; 4],
            port: u16,
            data in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let source = Ipv4Addr::from(source);
            let element = format!("UDPIPEncap({source}, {port}, 2.0.0.2, 9)");
            let mut rig = Rig::new(&element, 1, 1).unwrap();
            let out = rig.push(0, &[&data]);
            let (ip, udp) = (read(&out[0][0]).0, udp_header(&out[0][0]));
            let expected = etherparse::UdpHeader::with_ipv4_checksum(port, 9, &ip, &data).unwrap();
            prop_assert_eq!(udp, expected);
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("UDPIPEncap(1.0.0.1, 1, DST_ANNO, 2)", 1);
    }
}
