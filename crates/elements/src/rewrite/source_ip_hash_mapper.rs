//! SourceIPHashMapper - assigns new flows to patterns by consistent hashing of the source address
//!
//! # Synopsis
//! `SourceIPHashMapper(NNODES SEED, PATTERN1 ID1, ..., PATTERNn IDn)`
//!
//! # Description
//! A mapper for rewriters such as IPRewriter, which name it as INPUTSPEC. All flows from one source address are
//! rewritten by the same pattern, chosen by consistent hashing: each pattern, identified by its ID, has NNODES places
//! on a ring, and an address belongs to the pattern whose place follows the address's own. When a pattern is added or
//! removed, most addresses keep theirs. The places depend on SEED, NNODES and the IDs.
//!
//! # Arguments
//! - NNODES SEED: the number of places of each pattern, and the seed of the hash. Mandatory.
//! - PATTERN ID: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT ID` or `NAME FOUTPUT ROUTPUT ID`, the ID between 0 and 65534.
//!   At least one is mandatory; a single one causes a warning.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None; the rewriter drops.
//!
//! # Example
//! ```click
//! servers :: SourceIPHashMapper(5 0xbadbeef, - - 10.0.0.2 80 0 1 1, - - 10.0.0.3 80 0 1 2);
//! rw :: IPRewriter(servers, drop);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(2.0.0.2, 1234, 1.0.0.1, 80)
//!     -> rw -> Discard;
//! Idle -> [1] rw [1] -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, RoundRobinIPMapper, IPRewriterPatterns

use std::sync::Arc;

use millrace_core::Arg;
use millrace_core::args::ArgText;
use millrace_core::random::LibcRandom;
use millrace_core::{Class, Element, Failed, Offers, Setup, register};

use super::rewriter::input::{Named, parse_pattern};
use super::rewriter::pattern::Pattern;
use super::round_robin_ip_mapper::PHASE_MAPPER;
use crate::capability::{FlowId, Mapper, Outputs, Request};

/// The element; its manual is at the top of the file.
pub struct SourceIpHashMapper {
    patterns: Vec<(Arc<Pattern>, Outputs)>,
    /// The places in order, each with the index of its pattern.
    ring: Vec<(u32, usize)>,
}

register!(SourceIpHashMapper, "source_ip_hash_mapper.rs");

impl Element for SourceIpHashMapper {
    const CLASS: Class =
        Class::new("SourceIPHashMapper", "0/0", "a/a").phase(PHASE_MAPPER).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let named: Arc<Named> = setup.shared();
        let texts = setup.args.rest();
        match texts.len() {
            0 => setup.args.error((), "no hash seed given"),
            1 => setup.args.error((), "no patterns given"),
            2 => setup.args.warn((), "only one pattern given"),
            _ => {}
        }
        let (mut nodes, mut seed) = (1, 0);
        if let Some(first) = texts.first() {
            match parse_ring(first, setup) {
                Ok(parameters) => (nodes, seed) = parameters,
                Err(message) => setup.args.error(first, message),
            }
        }
        let mut patterns = Vec::new();
        for text in texts.iter().skip(1) {
            let words = text.words();
            let scope = setup.args.scope();
            let id = words.split_last().filter(|(_, pattern)| !pattern.is_empty());
            let id = id.and_then(|(id, pattern)| {
                let id = u16::parse(id, scope).ok().filter(|id| *id < u16::MAX)?;
                Some((id, pattern))
            });
            let parsed = match id {
                Some((id, words)) => parse_pattern(words, &named, scope)
                    .map(|(pattern, outputs)| (id, pattern, outputs)),
                None => Err("bad server ID in pattern spec".to_owned()),
            };
            match parsed {
                Ok(pattern) => patterns.push(pattern),
                Err(message) => setup.args.error(text, message),
            }
        }
        setup.args.complete()?;
        let ids: Vec<u16> = patterns.iter().map(|(id, _, _)| *id).collect();
        let patterns = patterns.into_iter().map(|(_, pattern, outputs)| (pattern, outputs));
        Ok(Self { patterns: patterns.collect(), ring: ring(&ids, nodes, seed) })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Mapper>(self.clone());
    }
}

fn parse_ring(text: &ArgText, setup: &Setup<'_>) -> Result<(usize, u32), &'static str> {
    let words = text.words();
    let [nodes, seed] = words.as_slice() else {
        return Err("requires 2 config params: numnodes seed");
    };
    let scope = setup.args.scope();
    let nodes = u16::parse(nodes, scope).ok().filter(|nodes| *nodes > 0);
    let nodes = nodes.ok_or("number of nodes must be an integer")?;
    let signed = i32::parse(seed, scope).map(i32::cast_unsigned);
    let seed = signed.or_else(|_| u32::parse(seed, scope));
    Ok((nodes.into(), seed.map_err(|_| "hash seed must be an integer")?))
}

impl Mapper for SourceIpHashMapper {
    fn rewrite(&self, flow: FlowId, request: &mut Request<'_>) -> Option<(FlowId, Outputs)> {
        let place = place_of(flow.source());
        let at = self.ring.partition_point(|(other, _)| *other < place);
        let (_, pattern) = self.ring.get(at).or(self.ring.first())?;
        let (pattern, outputs) = self.patterns.get(*pattern)?;
        Some((request.by(pattern, flow)?, *outputs))
    }

    fn outputs(&self) -> Vec<Outputs> {
        self.patterns.iter().map(|(_, outputs)| *outputs).collect()
    }
}

/// The place of an address on the ring, the same as in Click on a little-endian machine. The first byte of the
/// address, which neighbouring addresses share, also affects the upper bits.
fn place_of(address: u32) -> u32 {
    let address = address.swap_bytes();
    let spread = address.wrapping_mul((address & 0xff) << 24 | 1);
    spread % i32::MAX.cast_unsigned()
}

/// The places of all patterns, in order. Places are drawn for every ID from 0 to the highest, so that the places of
/// one ID do not depend on which others exist. As in Click, the patterns get the places of the IDs in rising order.
fn ring(ids: &[u16], nodes: usize, seed: u32) -> Vec<(u32, usize)> {
    let mut random = LibcRandom::new(seed);
    let mut ring = Vec::new();
    let mut index = 0;
    for id in 0..=ids.iter().copied().max().unwrap_or(0) {
        let known = ids.contains(&id);
        for _ in 0..nodes {
            let place = random.draw();
            if known {
                ring.push((place, index));
            }
        }
        index += usize::from(known);
    }
    ring.sort_by_key(|(place, _)| *place);
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_addresses_keep_their_pattern_when_one_is_removed() {
        let three = ring(&[1, 2, 3], 50, 7);
        let two = ring(&[1, 3], 50, 7);
        let owner = |ring: &[(u32, usize)], place: u32| {
            let at = ring.partition_point(|(other, _)| *other < place);
            ring.get(at).or(ring.first()).unwrap().1
        };
        let moved = (0..2000u32).map(|n| n * 1_000_003 % 0x7fff_ffff).filter(|&place| {
            let before = owner(&three, place);
            before != 1 && owner(&two, place) != before.min(1)
        });
        assert_eq!(moved.count(), 0);
    }
}
