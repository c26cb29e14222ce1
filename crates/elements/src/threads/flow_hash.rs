//! The hash by which packets are spread: the same for all packets of a flow.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use millrace_core::args::Word;
use millrace_core::{Args, Packet};

use super::dissect::{Address, Flow, Start, flow_of};
use super::toeplitz::{MICROSOFT, SYMMETRIC, Toeplitz};

/// How the flow of a packet is hashed, as arguments say it.
pub(super) struct FlowHash {
    start: Start,
    outer: bool,
    ports: bool,
    symmetric: bool,
    /// None for the fast hash.
    toeplitz: Option<Toeplitz>,
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
        Self { start, outer: !inner, ports, symmetric, toeplitz }
    }

    /// The hash of a packet's flow; 0 for a packet without any header.
    pub(super) fn of(&self, packet: &Packet) -> u32 {
        let Some(mut flow) = flow_of(packet.data(), self.start, self.outer) else { return 0 };
        if !self.ports {
            flow.ports = None;
        }
        match &self.toeplitz {
            Some(toeplitz) => toeplitz.hash(bytes(&flow)),
            None => self.fast(&flow),
        }
    }

    fn fast(&self, flow: &Flow) -> u32 {
        let ports = flow.ports.unwrap_or_default();
        let (mut from, mut to) = ((flow.source, ports.0), (flow.destination, ports.1));
        if self.symmetric && from > to {
            std::mem::swap(&mut from, &mut to);
        }
        let mut hasher = FixedState::with_seed(0).build_hasher();
        write(&mut hasher, from.0);
        write(&mut hasher, to.0);
        let last = [from.1, to.1, flow.protocol, 0].map(u64::from);
        hasher.write_u64(last.iter().fold(0, |all, part| all << 16 | part));
        let hash = hasher.finish();
        (hash ^ hash >> 32) as u32
    }
}

fn write(hasher: &mut impl Hasher, address: Address) {
    match address {
        Address::Ether(octets) => hasher.write(&octets),
        Address::V4(octets) => hasher.write_u32(u32::from_ne_bytes(octets)),
        Address::V6(octets) => hasher.write_u128(u128::from_ne_bytes(octets)),
    }
}

/// What the Toeplitz hash is of: addresses and, where there are any, ports.
fn bytes(flow: &Flow) -> impl Iterator<Item = u8> {
    let addresses = [flow.source, flow.destination].into_iter().flat_map(|address| {
        let (octets, length) = match address {
            Address::Ether(octets) => (pad(&octets), octets.len()),
            Address::V4(octets) => (pad(&octets), octets.len()),
            Address::V6(octets) => (octets, octets.len()),
        };
        octets.into_iter().take(length)
    });
    let ports = flow.ports.into_iter().flat_map(|(from, to)| [from, to]);
    addresses.chain(ports.flat_map(u16::to_be_bytes))
}

fn pad(octets: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    all
}

/// Which of `targets` a hash falls to: as many hashes to each.
pub(super) fn target(hash: u32, targets: usize) -> usize {
    ((u64::from(hash) * targets as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests")]

    use proptest::prelude::*;

    use super::super::dissect::tests::{WRAPS, Wanted, frame, wanted, wrap};
    use super::*;

    fn hasher(symmetric: bool, toeplitz: bool) -> FlowHash {
        let key = if symmetric { &SYMMETRIC } else { &MICROSOFT };
        let toeplitz = toeplitz.then(|| Toeplitz::new(key));
        FlowHash { start: Start::Ether, outer: false, ports: true, symmetric, toeplitz }
    }

    fn hash(hasher: &FlowHash, frame: &[u8]) -> u32 {
        hasher.of(&Packet::from_bytes(frame).unwrap())
    }

    proptest! {
        #[test]
        fn a_flow_has_one_hash_however_it_is_wrapped(
            wanted in wanted(),
            how in 0..WRAPS.len(),
            tags in 0usize..3,
            symmetric in any::<bool>(),
            toeplitz in any::<bool>(),
        ) {
            let hasher = hasher(symmetric, toeplitz);
            let bare = hash(&hasher, &frame(&wanted.packet(), 0));
            prop_assert_eq!(hash(&hasher, &frame(&wrap(&wanted.packet(), WRAPS[how]), tags)), bare);
            let back = frame(&wrap(&wanted.reversed().packet(), WRAPS[how]), 0);
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
                let hosts = (port as u8, (port >> 8) as u8);
                let wanted = Wanted { v6: port % 2 == 0, tcp: true, hosts, ports: (port, 443) };
                counts[target(hash(&hasher, &frame(&wanted.packet(), 0)), 7)] += 1;
            }
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn targets_share_the_hashes() {
        assert_eq!((target(0, 3), target(u32::MAX, 3), target(u32::MAX / 2, 2)), (0, 2, 0));
        assert_eq!(target(7, 0), 0);
    }
}
