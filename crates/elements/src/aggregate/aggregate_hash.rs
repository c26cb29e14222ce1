//! AggregateHash - sets the aggregate annotation to a hash of the packet's flow
//!
//! # Synopsis
//! `AggregateHash([BITS])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to a hash of its addresses, ports and protocol, so that all packets of
//! a flow get the same aggregate. Fragments are hashed without ports. The packet must have its IPv4 header position
//! set; otherwise the aggregate becomes 0.
//!
//! # Arguments
//! - BITS: the number of bits of the hash to use, 1 to 32. Positional, default 32.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FastUDPSource(100, 1000, 60, 2:0:0:0:0:1, 10.0.0.1, 1234, 2:0:0:0:0:2, 10.0.0.2, 1234)
//!     -> MarkIPHeader(14)
//!     -> AggregateHash(8)
//!     -> AggregateCounter
//!     -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPFlows, AggregateCounterVector, SoftwareRSS

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use millrace_core::args::Kind;
use millrace_core::headers::dissect::{Start, flow_of};
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct AggregateHash {
    bits: u32,
    /// The same hash in every run.
    state: FixedState,
}

register!(AggregateHash, "aggregate_hash.rs");

impl Element for AggregateHash {
    const CLASS: Class = Class::new("AggregateHash", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let bits = setup.args.in_range("BITS", Kind::Positional, 1..=32).unwrap_or(32);
        setup.args.complete()?;
        Ok(Self { bits, state: FixedState::with_seed(0) })
    }
}

impl PerPacket for AggregateHash {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let hash = packet.network_data().map_or(0, |bytes| self.hash(bytes));
        packet.set_aggregate(hash >> (32 - self.bits));
        Way::ON
    }
}

impl AggregateHash {
    /// The hash of the outer flow of an IP packet.
    fn hash(&self, bytes: &[u8]) -> u32 {
        let Some(flow) = flow_of(bytes, Start::Ip, true) else { return 0 };
        let (source, destination) = flow.ports.unwrap_or_default();
        let mut hasher = self.state.build_hasher();
        hasher.write_u128(flow.source);
        hasher.write_u128(flow.destination);
        hasher.write_u64(
            u64::from(source) << 32 | u64::from(destination) << 16 | u64::from(flow.protocol),
        );
        let hash = hasher.finish();
        (hash ^ hash >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, withstands};

    /// A datagram from this port.
    fn from_port(port: u16) -> Packet {
        let mut datagram = Datagram::udp(b"data");
        datagram.payload[..2].copy_from_slice(&port.to_be_bytes());
        datagram.packet()
    }

    #[test]
    fn a_flow_has_one_aggregate_and_many_flows_have_many() {
        let mut rig = Rig::new("AggregateHash(16)", 1, 1).unwrap();
        let mut aggregates = HashSet::new();
        for port in 0..200 {
            let out = rig.push_packets(0, vec![from_port(port), from_port(port)]);
            let [first, second] = &out[0][..] else { panic!("two packets") };
            assert_eq!(first.aggregate(), second.aggregate());
            assert!(first.aggregate() < 1 << 16);
            aggregates.insert(first.aggregate());
        }
        assert!(aggregates.len() > 190, "{}", aggregates.len());
    }

    #[test]
    fn a_packet_without_a_header_has_aggregate_0() {
        let mut packet = Packet::from_bytes(b"no IP").unwrap();
        packet.set_aggregate(7);
        let mut rig = Rig::new("AggregateHash", 1, 1).unwrap();
        assert_eq!(rig.push_packets(0, vec![packet])[0][0].aggregate(), 0);
        for bad in ["AggregateHash(0)", "AggregateHash(33)"] {
            assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("AggregateHash", 1);
    }
}
