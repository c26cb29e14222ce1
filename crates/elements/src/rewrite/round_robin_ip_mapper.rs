//! RoundRobinIPMapper - assigns new flows to patterns in turn
//!
//! # Synopsis
//! `RoundRobinIPMapper(PATTERN1, ..., PATTERNn)`
//!
//! # Description
//! A mapper for rewriters such as IPRewriter, which name it as INPUTSPEC. Each new flow is rewritten by the next
//! pattern in turn, for example to distribute connections over servers. A pattern that has nothing free for a flow is
//! skipped; if no pattern has, the packet is dropped.
//!
//! # Arguments
//! - PATTERN: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT` or `NAME FOUTPUT ROUTPUT`, as after `pattern` in IPRewriter. At
//!   least one is mandatory; a single one causes a warning.
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
//! servers :: RoundRobinIPMapper(- - 10.0.0.2 80 0 1, - - 10.0.0.3 80 0 1);
//! rw :: IPRewriter(servers, drop);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(2.0.0.2, 1234, 1.0.0.1, 80)
//!     -> rw -> Discard;
//! Idle -> [1] rw [1] -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, SourceIPHashMapper, IPRewriterPatterns

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{Class, Element, Failed, Offers, Setup, register};

use super::rewriter::input::{Named, parse_pattern};
use super::rewriter::pattern::Pattern;
use crate::capability::{FlowId, Mapper, Outputs, Request};

/// The element; its manual is at the top of the file.
pub struct RoundRobinIpMapper {
    patterns: Vec<(Arc<Pattern>, Outputs)>,
    next: AtomicUsize,
}

register!(RoundRobinIpMapper, "round_robin_ip_mapper.rs");

/// The phase of mappers: after the names of patterns, before the rewriters.
pub(super) const PHASE_MAPPER: i8 = Class::PHASE_DEFAULT - 1;

impl Element for RoundRobinIpMapper {
    const CLASS: Class =
        Class::new("RoundRobinIPMapper", "0/0", "a/a").phase(PHASE_MAPPER).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let named: Arc<Named> = setup.shared();
        let texts = setup.args.rest();
        match texts.len() {
            0 => setup.args.error((), "no patterns given"),
            1 => setup.args.warn((), "only one pattern given"),
            _ => {}
        }
        let mut patterns = Vec::new();
        for text in &texts {
            match parse_pattern(&text.words(), &named, setup.args.scope()) {
                Ok(pattern) => patterns.push(pattern),
                Err(message) => setup.args.error(text, message),
            }
        }
        setup.args.complete()?;
        Ok(Self { patterns, next: AtomicUsize::new(0) })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Mapper>(self.clone());
    }
}

impl Mapper for RoundRobinIpMapper {
    fn rewrite(&self, flow: FlowId, request: &mut Request<'_>) -> Option<(FlowId, Outputs)> {
        (0..self.patterns.len()).find_map(|_| {
            let turn = self.next.load(Relaxed) % self.patterns.len().max(1);
            self.next.store(turn + 1, Relaxed);
            let (pattern, outputs) = self.patterns.get(turn)?;
            Some((request.by(pattern, flow)?, *outputs))
        })
    }

    fn outputs(&self) -> Vec<Outputs> {
        self.patterns.iter().map(|(_, outputs)| *outputs).collect()
    }
}
