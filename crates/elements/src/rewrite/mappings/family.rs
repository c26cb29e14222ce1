//! The differences between kinds of rewriters outside the fast path: keys, permitted mappings, text.

use std::net::Ipv4Addr;

use crate::flows::key::FlowId;
use millrace_core::headers::protocol;

/// A kind of rewriter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// TCP in one map, UDP in another.
    Ip,
    Tcp,
    Udp,
    /// By source address; replies by destination address.
    Address,
    /// By both addresses.
    AddressPair,
    Ping,
}

/// The value that Click's flows of echo requests have as destination port: the identifier plus one, as a
/// little-endian machine counts.
pub(crate) fn next_identifier(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

impl Family {
    /// Whether the destination annotation is set for packets in a direction.
    #[inline(always)]
    pub(crate) fn annotates(self, reply: bool) -> bool {
        reply || self != Self::Address
    }

    /// The flow of replies to a mapping, after the rewriter has chosen its destination port.
    pub(crate) fn reply_of(self, reply: FlowId) -> FlowId {
        match self {
            Self::Ping => reply.with_source_port(next_identifier(reply.destination_port())),
            _ => reply,
        }
    }

    /// The flow that a flow becomes; `None` if this kind of rewriter cannot make it.
    pub(crate) fn accept(self, to: FlowId) -> Option<FlowId> {
        match self {
            Self::Ip | Self::Tcp | Self::Udp => Some(to),
            Self::Address => Some(to).filter(|to| to.ports == 0 && to.destination() == 0),
            Self::AddressPair => Some(to).filter(|to| to.ports == 0),
            Self::Ping => Some(to.with_destination_port(next_identifier(to.source_port()))),
        }
    }

    /// The amounts to add to the checksums of the IP header and of the transport header.
    pub(crate) fn deltas(self, from: FlowId, to: FlowId) -> (u16, u16) {
        let words = |id: u64, at: u32| u64::from((id >> (16 * at)) as u16);
        let difference = |from: u64, to: u64, count: u32| {
            let terms = (0..count).map(|at| (words(from, at) ^ 0xffff) + words(to, at));
            terms.sum::<u64>()
        };
        let addresses = difference(from.addresses, to.addresses, 4);
        let ports = match self {
            Self::Ping => {
                return (
                    fold(addresses),
                    fold(difference(from.source_port().into(), to.source_port().into(), 1)),
                );
            }
            _ => difference(from.ports.into(), to.ports.into(), 2),
        };
        (fold(addresses), fold(addresses + ports))
    }

    /// The map and the keys by which a flow of this protocol is looked up.
    pub(crate) fn lookup(
        self,
        number: u8,
        flow: FlowId,
        reply: bool,
    ) -> Option<(usize, [Option<FlowId>; 2])> {
        let addresses = FlowId { ports: 0, ..flow };
        Some(match self {
            Self::Ip if number == protocol::TCP => (0, [Some(flow), None]),
            Self::Ip if number == protocol::UDP => (1, [Some(flow), None]),
            Self::Ip => return None,
            Self::Tcp | Self::Udp => (0, [Some(flow), None]),
            Self::Address => {
                let (from, to) = (addresses.with_destination(0), addresses.with_source(0));
                (0, [Some(from), Some(to)])
            }
            Self::AddressPair => (0, [Some(addresses), None]),
            Self::Ping if number != protocol::ICMP => return None,
            Self::Ping => {
                let identifier = flow.source_port();
                let next = next_identifier(identifier);
                let (from, to) = if reply { (next, identifier) } else { (identifier, next) };
                (0, [Some(flow.with_source_port(from).with_destination_port(to)), None])
            }
        })
    }

    /// The part of a dump's line that differs between kinds of rewriters: the flow and what it becomes.
    pub(crate) fn line(self, from: FlowId, to: FlowId) -> String {
        let address = |address: u32| Ipv4Addr::from(address);
        match self {
            Self::Ip | Self::Tcp | Self::Udp => format!("{from} => {to}"),
            Self::Address => format!("{} => {}", address(from.source()), address(to.source())),
            Self::AddressPair => {
                let pair = |id: FlowId| {
                    format!("({}, {})", address(id.source()), address(id.destination()))
                };
                format!("{} => {}", pair(from), pair(to))
            }
            Self::Ping => {
                let triple = |id: FlowId| {
                    let (source, destination) = (address(id.source()), address(id.destination()));
                    format!("({source}, {destination}, {})", id.source_port())
                };
                format!("{} => {}", triple(from), triple(to))
            }
        }
    }
}

/// A sum folded to 16 bits; 0 if it changes nothing.
fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if sum == 0xffff { 0 } else { sum as u16 }
}
