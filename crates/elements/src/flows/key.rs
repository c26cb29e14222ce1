//! What a packet's flow is known by.

use millrace_core::View;
use millrace_core::headers::{Header, Ipv4Header, protocol};

use crate::rewrite::flow_id::FlowId;

/// Protocols beside TCP and UDP whose headers begin with two ports: DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 3] = [33, 132, 136];

/// Addresses, ports and protocol of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FiveTuple {
    /// The source address in the upper half.
    pub(super) addresses: u64,
    /// The source port in the upper half; 0 for what has no ports, and for fragments but the first.
    pub(super) ports: u32,
    pub(super) protocol: u8,
}

impl FiveTuple {
    /// The flow of a packet with an IP header.
    pub(super) fn of(packet: &View) -> Option<Self> {
        let bytes = packet.network_data()?;
        let (ip, _) = Ipv4Header::view(bytes)?;
        let protocol = ip.protocol;
        let has_ports = protocol == protocol::TCP
            || protocol == protocol::UDP
            || WITH_PORTS.contains(&protocol);
        let ports = bytes.get(ip.header_len()..).and_then(<[u8]>::first_chunk);
        let ports = ports.filter(|_| has_ports && ip.is_first_fragment());
        let addresses = u64::from(ip.source().to_bits()) << 32;
        Some(Self {
            addresses: addresses | u64::from(ip.destination().to_bits()),
            ports: ports.map_or(0, |ports| u32::from_be_bytes(*ports)),
            protocol,
        })
    }

    /// The hash that Click has of addresses and ports (`IPFlowID::hashcode`).
    pub(super) fn click_hash(self) -> u32 {
        FlowId { addresses: self.addresses, ports: self.ports }.click_hash()
    }
}

/// A flow: by the number that a manager upstream gave it, or by what its packets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FlowKey {
    Numbered(u32),
    Told(FiveTuple),
    /// Packets without an IP header and without a number, all together.
    Other,
}

impl FlowKey {
    pub(super) fn of(packet: &View) -> Self {
        match packet.aggregate() {
            0 => FiveTuple::of(packet).map_or(Self::Other, Self::Told),
            number => Self::Numbered(number),
        }
    }
}
