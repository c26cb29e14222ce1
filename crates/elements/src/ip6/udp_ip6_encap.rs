//! UDPIP6Encap - prepends UDP and IPv6 headers to packets
//!
//! # Synopsis
//! `UDPIP6Encap(SRC, SPORT, DST, DPORT)`
//!
//! # Description
//! Prepends a UDP header and an IPv6 header with hop limit 255 to each packet, and sets the IPv6 destination annotation
//! to DST. Computes the UDP checksum, which IPv6 requires.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - SPORT: source port. Positional, mandatory.
//! - DST: destination address, or `DST_ANNO` to use each packet's IPv6 destination annotation. Positional, mandatory.
//! - DPORT: destination port. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src`, `dst` (read, write): the addresses.
//! - `sport`, `dport` (read, write): the ports.
//!
//! # Drops
//! - too big: the datagram would be longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 53)
//!     -> CheckIP6Header
//!     -> Discard;
//! ```
//!
//! # See also
//! IP6Encap, UDPIPEncap

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::args::UdpPort;
use millrace_core::headers::{Header, Ipv6Header, UdpHeader, protocol};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Published, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use super::header::outer::{OuterHeader, address_handlers, transport_sum};

/// The element; its manual is at the top of the file.
pub struct UdpIp6Encap {
    outer: Published<OuterHeader>,
    src_port: AtomicU16,
    dst_port: AtomicU16,
}

register!(UdpIp6Encap, "udp_ip6_encap.rs");

impl Element for UdpIp6Encap {
    const CLASS: Class = Class::new("UDPIP6Encap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source = args.mandatory("SRC");
        let UdpPort(src_port) = args.mandatory("SPORT");
        let destination = args.mandatory("DST");
        let UdpPort(dst_port) = args.mandatory("DPORT");
        args.complete()?;
        let outer = OuterHeader {
            source,
            destination,
            next_header: protocol::UDP,
            hop_limit: u8::MAX,
            traffic_class: 0,
        };
        let outer = Published::new(outer);
        Ok(Self { outer, src_port: src_port.into(), dst_port: dst_port.into() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let outer = self.outer.load();
        batch.map_filter(|mut packet| {
            let len = packet.len() + UdpHeader::LEN;
            let Some(ip) = outer.for_packet(&mut packet, len) else {
                return cx.drop(packet, Reason::TooBig);
            };
            let udp = UdpHeader {
                src_port: self.src_port.load(Relaxed).into(),
                dst_port: self.dst_port.load(Relaxed).into(),
                len: ip.payload_len,
                checksum: 0.into(),
            };
            packet.push_front(udp.as_bytes());
            let checksum = transport_sum(&ip, protocol::UDP, packet.data()).finish_udp();
            if let Some((udp, _)) = UdpHeader::view_mut(packet.data_mut()) {
                udp.checksum.set(checksum);
            }
            packet.push_front(ip.as_bytes());
            packet.set_network_header(0, Ipv6Header::LEN);
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        address_handlers(handlers, |element| &element.outer);
        port_handler(handlers, "sport", |element| &element.src_port);
        port_handler(handlers, "dport", |element| &element.dst_port);
    }
}

fn port_handler(
    handlers: &mut Handlers<UdpIp6Encap>,
    name: &'static str,
    of: fn(&UdpIp6Encap) -> &AtomicU16,
) {
    handlers.read(name, move |element, _| of(element).load(Relaxed));
    handlers.write(name, move |element, call| {
        let UdpPort(port) = call.parse()?;
        of(element).store(port, Relaxed);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::Packet;
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip6::{Datagram, withstands};

    const CONFIG: &str = "UDPIP6Encap(2001:db8::1, 1234, 2001:db8:1:2:3:4:5:6, 5678)";

    proptest! {
        /// Etherparse builds the same datagrams, including the checksum.
        #[test]
        fn agrees_with_etherparse(payload in prop::collection::vec(any::<u8>(), 0..1500)) {
            let rig = RefCell::new(Rig::new(CONFIG, 1, 1).unwrap());
            let out = rig.borrow_mut().push(0, &[&payload]);
            let oracle = Datagram { hop_limit: 255, ..Datagram::udp(1234, 5678, &payload) };
            prop_assert_eq!(&out[0][0], &oracle.bytes());
        }
    }

    #[test]
    fn handlers_change_addresses_and_ports() {
        let mut rig = Rig::new(CONFIG, 1, 1).unwrap();
        for (handler, value) in
            [("src", "2001:db8::3"), ("sport", "33"), ("dst", "DST_ANNO"), ("dport", "53")]
        {
            rig.write(handler, value).unwrap();
            assert_eq!(rig.read(handler).unwrap(), value);
            assert!(rig.write(handler, "?").is_err());
        }
        let mut packet = Packet::from_bytes(b"data").unwrap();
        packet.set_dst_ip6(Datagram::DESTINATION);
        let out = rig.push_packets(0, vec![packet]).remove(0);
        assert_eq!(
            out[0].data()[24..44],
            [&Datagram::DESTINATION.octets()[..], &[0, 33, 0, 53]].concat()
        );
    }

    #[test]
    fn withstands_anything() {
        withstands("UDPIP6Encap(::1, 1, DST_ANNO, 2)", 1);
    }
}
