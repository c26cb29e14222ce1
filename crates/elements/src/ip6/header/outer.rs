//! The IPv6 header that IP6Encap and UDPIP6Encap prepend to packets, and the checksum of what follows it.

use std::net::Ipv6Addr;

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, IcmpHeader, Ipv6Header, protocol};
use millrace_core::{Handlers, Packet, Published};

use crate::ip::header::outer;

/// A header, complete except for the payload length and a destination taken from the packet.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeader {
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Destination,
    pub(crate) next_header: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

/// Where encapsulated packets go.
pub(crate) type Destination = outer::Destination<Ipv6Addr>;

impl OuterHeader {
    /// Makes the header for a packet with a payload of `payload_len` bytes, and sets the packet's destination
    /// annotation. Returns `None` if the payload is too long.
    pub(crate) fn for_packet(&self, packet: &mut Packet, payload_len: usize) -> Option<Ipv6Header> {
        let payload_len = u16::try_from(payload_len).ok()?;
        let destination = match self.destination {
            Destination::Address(address) => {
                packet.set_dst_ip6(address);
                address
            }
            Destination::Annotation => packet.dst_ip6(),
        };
        let mut header = header(self.source, destination, self.next_header, payload_len);
        header.hop_limit = self.hop_limit;
        header.set_version_class_flow(self.traffic_class, 0);
        Some(header)
    }
}

/// A header with hop limit 255, traffic class 0 and flow label 0.
pub(crate) fn header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    payload_len: u16,
) -> Ipv6Header {
    let mut header = Ipv6Header {
        version_class_flow: 0.into(),
        payload_len: payload_len.into(),
        next_header,
        hop_limit: u8::MAX,
        src: source.octets(),
        dst: destination.octets(),
    };
    header.set_version_class_flow(0, 0);
    header
}

/// The sum over the pseudo header and `payload`, the upper-layer packet that follows this header.
pub(crate) fn transport_sum(header: &Ipv6Header, protocol: u8, payload: &[u8]) -> Sum {
    // A payload is never longer than its length field can hold.
    let len = payload.len() as u32;
    Sum::of_pseudo_v6(header.source(), header.destination(), protocol, len).add_bytes(payload)
}

/// Sets the checksum of an ICMPv6 message.
pub(crate) fn fill_icmp6_checksum(header: &Ipv6Header, message: &mut [u8]) {
    let Some((icmp, _)) = IcmpHeader::view_mut(message) else { return };
    icmp.checksum.set(0);
    let checksum = transport_sum(header, protocol::ICMPV6, message).finish();
    if let Some((icmp, _)) = IcmpHeader::view_mut(message) {
        icmp.checksum.set(checksum);
    }
}

/// Declares the handlers `src` and `dst` of class `E`, which has a header.
pub(crate) fn address_handlers<E: 'static>(
    handlers: &mut Handlers<E>,
    of: impl Fn(&E) -> &Published<OuterHeader> + Copy + Send + Sync + 'static,
) {
    handlers.read("src", move |element, _| of(element).load().source.to_string());
    handlers.write("src", move |element, call| {
        let source: Ipv6Addr = call.parse()?;
        of(element).update(|outer| OuterHeader { source, ..OuterHeader::clone(outer) });
        Ok(())
    });
    handlers.read("dst", move |element, _| of(element).load().destination.to_string());
    handlers.write("dst", move |element, call| {
        let destination: Destination = call.parse()?;
        of(element).update(|outer| OuterHeader { destination, ..OuterHeader::clone(outer) });
        Ok(())
    });
}
