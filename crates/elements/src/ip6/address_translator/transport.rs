//! Ports and checksums of the packets that AddressTranslator translates.

use millrace_core::Reason;
use millrace_core::checksum::update;
use millrace_core::headers::{
    Header, IcmpHeader, Ipv6Header, TcpHeader, UdpHeader, icmpv6_type, protocol,
};

use super::mappings::{Direction, End};

/// The ports of a packet; both are the identifier if it is an echo.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) source: u16,
    pub(super) destination: u16,
}

/// The ports in a payload; `None` in an ICMPv6 message that has none.
pub(super) fn ports(protocol: u8, payload: &[u8]) -> Result<Option<Ports>, Reason> {
    let of = |source, destination| Ok(Some(Ports { source, destination }));
    match protocol {
        protocol::TCP => {
            let (tcp, _) = TcpHeader::view(payload).ok_or(Reason::Truncated)?;
            of(tcp.src_port.get(), tcp.dst_port.get())
        }
        protocol::UDP => {
            let (udp, _) = UdpHeader::view(payload).ok_or(Reason::Truncated)?;
            of(udp.src_port.get(), udp.dst_port.get())
        }
        protocol::ICMPV6 => {
            let (icmp, _) = IcmpHeader::view(payload).ok_or(Reason::Truncated)?;
            match icmp.kind {
                icmpv6_type::ECHO_REQUEST | icmpv6_type::ECHO_REPLY => of(icmp.id(), icmp.id()),
                _ => Ok(None),
            }
        }
        _ => Err(Reason::NoMatch),
    }
}

/// Replaces the end `old` of a packet whose ports were read, and updates its checksum.
pub(super) fn write_end(packet: &mut [u8], direction: Direction, old: End, new: End) {
    let Some((ip, payload)) = Ipv6Header::view_mut(packet) else { return };
    let outward = direction == Direction::Outward;
    let address = if outward { &mut ip.src } else { &mut ip.dst };
    *address = new.address.octets();
    let change = |checksum: u16| {
        let words = old.address.segments().into_iter().zip(new.address.segments());
        let words = words.chain([(old.port, new.port)]);
        words.fold(checksum, |checksum, (old, new)| update(checksum, old, new))
    };
    match ip.next_header {
        protocol::TCP => {
            let Some((tcp, _)) = TcpHeader::view_mut(payload) else { return };
            let port = if outward { &mut tcp.src_port } else { &mut tcp.dst_port };
            port.set(new.port);
            tcp.checksum.set(change(tcp.checksum.get()));
        }
        protocol::UDP => {
            let Some((udp, _)) = UdpHeader::view_mut(payload) else { return };
            let port = if outward { &mut udp.src_port } else { &mut udp.dst_port };
            port.set(new.port);
            // 0 would mean that there is no checksum.
            if udp.checksum.get() != 0 {
                let sum = change(udp.checksum.get());
                udp.checksum.set(if sum == 0 { u16::MAX } else { sum });
            }
        }
        _ => {
            let Some((icmp, _)) = IcmpHeader::view_mut(payload) else { return };
            if matches!(icmp.kind, icmpv6_type::ECHO_REQUEST | icmpv6_type::ECHO_REPLY) {
                icmp.set_id(new.port);
            }
            icmp.checksum.set(change(icmp.checksum.get()));
        }
    }
}
