//! The rule sets that are measured, and packets for them, always the same.

use std::collections::HashSet;

use millrace_testkit::generate::frame::Frame;
pub(crate) use millrace_testkit::generate::rules::{Header, KINDS, Kind, Rule};
use millrace_testkit::generate::rules::{Prefix, RuleSet};
use millrace_testkit::generate::trace::Trace;

/// The seed of random numbers.
const SEED: u64 = 0x7275_6c65;

/// `count` different rules of a kind.
pub(crate) fn rules(kind: &'static Kind, count: usize) -> Vec<Rule> {
    RuleSet { seed: SEED, ..RuleSet::new(kind, count) }.make()
}

/// `count` different rules of two shapes: a network of the source and one of the destination, TCP or UDP, and one
/// destination port.
pub(crate) fn rules_of_few_shapes(count: usize) -> Vec<Rule> {
    const TCP_AND_UDP: [u8; 2] = [6, 17];
    let mut random = fastrand::Rng::with_seed(SEED ^ 2);
    let mut seen = HashSet::new();
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let port = random.u16(1..10_000);
        let mut net = |length| Prefix::around(random.u32(0x0100_0000..0xdf00_0000), length);
        let rule = Rule {
            nets: [net(16), net(24)],
            protocol: random.choice(TCP_AND_UDP),
            ports: [(0, u16::MAX), (port, port)],
            ..Rule::any(random.u16(..2))
        };
        if seen.insert(rule.expression()) {
            rules.push(rule);
        }
    }
    rules
}

/// True if IPFilter allows the packets of a rule.
pub(crate) fn allows(rule: &Rule) -> bool {
    rule.action.is_multiple_of(2)
}

/// Packets, most of which match a randomly chosen rule.
pub(crate) fn headers(rules: &[Rule], count: usize) -> Vec<Header> {
    Trace { seed: SEED ^ 1, ..Trace::new(count) }.make(rules)
}

/// A frame of 64 bytes without checksum.
pub(crate) fn frame(header: &Header) -> [u8; 60] {
    let mut frame = [0; 60];
    frame.copy_from_slice(&Frame::new(*header, &[]).bytes());
    frame
}
