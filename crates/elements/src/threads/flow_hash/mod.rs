//! The hash that selects a thread or output for a packet: the same for all packets of a flow.

mod toeplitz;

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use millrace_core::Args;
use millrace_core::args::Word;
use millrace_core::headers::dissect::{Flow, Kind, Start, flow_of};

use toeplitz::{MICROSOFT, SYMMETRIC, Toeplitz};

/// How to hash the flow of a packet, as configured.
pub(super) struct FlowHash {
    start: Start,
    outer: bool,
    ports: bool,
    symmetric: bool,
    /// None for the fast hash.
    toeplitz: Option<Toeplitz>,
    state: FixedState,
}

impl FlowHash {
    /// Reads SYMMETRIC, HASH, ENCAP, INNER and PORTS.
    pub(super) fn configure(args: &mut Args<'_>) -> Self {
        let symmetric = args.keyword("SYMMETRIC", false);
        let hash: Option<Word> = args.optional_keyword("HASH");
        let encap: Option<Word> = args.optional_keyword("ENCAP");
        let inner = args.keyword("INNER", true);
        let ports = args.keyword("PORTS", true);
        let toeplitz = match hash.as_ref().map(Word::as_str) {
            None | Some("FAST") => None,
            Some("TOEPLITZ") => {
                Some(Toeplitz::new(if symmetric { &SYMMETRIC } else { &MICROSOFT }))
            }
            Some(_) => {
                args.error("HASH", "HASH must be FAST or TOEPLITZ");
                None
            }
        };
        let start = match encap.as_ref().map(Word::as_str) {
            None | Some("ETHER") => Start::Ether,
            Some("IP") => Start::Ip,
            Some(_) => {
                args.error("ENCAP", "ENCAP must be ETHER or IP");
                Start::Ether
            }
        };
        let state = FixedState::with_seed(0);
        Self { start, outer: !inner, ports, symmetric, toeplitz, state }
    }

    /// The hash of the flow of a packet with these bytes; 0 if it has no complete header.
    pub(super) fn of(&self, data: &[u8]) -> u32 {
        let Some(mut flow) = flow_of(data, self.start, self.outer) else { return 0 };
        if !self.ports {
            flow.ports = None;
        }
        match &self.toeplitz {
            Some(toeplitz) => toeplitz_of(toeplitz, &flow),
            None => self.fast(&flow),
        }
    }

    fn fast(&self, flow: &Flow) -> u32 {
        let ports = flow.ports.unwrap_or_default();
        let (mut from, mut to) = ((flow.source, ports.0), (flow.destination, ports.1));
        if self.symmetric && from > to {
            std::mem::swap(&mut from, &mut to);
        }
        let mut hasher = self.state.build_hasher();
        match flow.kind {
            Kind::V4 => hasher.write_u64((from.0 as u64) << 32 | to.0 as u64),
            Kind::V6 | Kind::Ether => {
                hasher.write_u128(from.0);
                hasher.write_u128(to.0);
            }
        }
        let ports = u64::from(from.1) << 16 | u64::from(to.1);
        hasher.write_u64(ports << 16 | u64::from(flow.protocol));
        let hash = hasher.finish();
        (hash ^ hash >> 32) as u32
    }
}

/// Computes the Toeplitz hash of the addresses and, if there are any, the ports.
fn toeplitz_of(toeplitz: &Toeplitz, flow: &Flow) -> u32 {
    let (from, to) = flow.ports.unwrap_or_default();
    let ports = (u32::from(from) << 16 | u32::from(to)).to_be_bytes();
    let addresses = 2 * flow.kind.address_len();
    let length = addresses + if flow.ports.is_some() { ports.len() } else { 0 };
    let mut input = [0; 36];
    // The positions are constants for each kind.
    let mut put = |at: usize, octets: &[u8]| {
        if let Some(place) = input.get_mut(at..at + octets.len()) {
            place.copy_from_slice(octets);
        }
    };
    match flow.kind {
        Kind::V4 => {
            put(0, &(flow.source as u32).to_be_bytes());
            put(4, &(flow.destination as u32).to_be_bytes());
            put(8, &ports);
        }
        Kind::V6 => {
            put(0, &flow.source.to_be_bytes());
            put(16, &flow.destination.to_be_bytes());
            put(32, &ports);
        }
        Kind::Ether => {
            put(0, &(flow.source << 80 | flow.destination << 32).to_be_bytes());
        }
    }
    toeplitz.hash(input.get(..length).unwrap_or_default())
}

/// Which of `targets` a hash selects; each gets an equal share of the hashes.
pub(super) fn target(hash: u32, targets: usize) -> usize {
    ((u64::from(hash) * targets as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests")]

    use etherparse::PacketBuilder;
    use millrace_testkit::generate::tunnel::{TUNNELS, tagged, wrap};
    use proptest::prelude::*;

    use super::*;

    /// A datagram between two hosts, and its reply.
    fn exchange(v6: bool, hosts: [u8; 2], ports: [u16; 2]) -> [Vec<u8>; 2] {
        [[0, 1], [1, 0]].map(|[from, to]| {
            let (source, destination) = (hosts[from], hosts[to]);
            let builder = match v6 {
                true => PacketBuilder::ipv6([source; 16], [destination; 16], 64),
                false => PacketBuilder::ipv4([source; 4], [destination; 4], 64),
            };
            let mut bytes = Vec::new();
            builder.udp(ports[from], ports[to]).write(&mut bytes, b"data").unwrap();
            bytes
        })
    }

    fn hasher(symmetric: bool, toeplitz: bool) -> FlowHash {
        let key = if symmetric { &SYMMETRIC } else { &MICROSOFT };
        let toeplitz = toeplitz.then(|| Toeplitz::new(key));
        let state = FixedState::with_seed(0);
        FlowHash { start: Start::Ether, outer: false, ports: true, symmetric, toeplitz, state }
    }

    fn hash(hasher: &FlowHash, frame: &[u8]) -> u32 {
        hasher.of(frame)
    }

    proptest! {
        #[test]
        fn a_flow_has_one_hash_however_it_is_wrapped(
            v6 in any::<bool>(),
            hosts in any::<[u8; 2]>(),
            // Ports that no tunnel uses.
            ports in [1u16..2000, 1u16..2000],
            how in 0..TUNNELS.len(),
            tags in 0usize..3,
            symmetric in any::<bool>(),
            toeplitz in any::<bool>(),
        ) {
            let hasher = hasher(symmetric, toeplitz);
            let [there, back] = exchange(v6, hosts, ports);
            let bare = hash(&hasher, &tagged(&there, 0));
            prop_assert_eq!(hash(&hasher, &tagged(&wrap(&there, TUNNELS[how]), tags)), bare);
            let back = tagged(&wrap(&back, TUNNELS[how]), 0);
            if symmetric {
                prop_assert_eq!(hash(&hasher, &back), bare);
            }
        }
    }

    #[test]
    fn flows_spread_evenly() {
        for (symmetric, toeplitz) in [(false, false), (true, false), (false, true)] {
            let hasher = hasher(symmetric, toeplitz);
            let mut counts = [0usize; 7];
            for port in 0..7000u16 {
                let hosts = [port as u8, (port >> 8) as u8];
                let [there, _] = exchange(port % 2 == 0, hosts, [port, 443]);
                counts[target(hash(&hasher, &tagged(&there, 0)), 7)] += 1;
            }
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn targets_get_equal_shares_of_the_hashes() {
        assert_eq!((target(0, 3), target(u32::MAX, 3), target(u32::MAX / 2, 2)), (0, 2, 0));
        assert_eq!(target(7, 0), 0);
    }
}
