//! Headers for a rule set.
//!
//! As in ClassBench's trace generator, a header is a corner of a randomly chosen rule, or a point inside it, and is
//! repeated several times. The number of repetitions has a Pareto distribution, so that a few headers make up much of
//! the trace.

use super::random;
use super::rules::{Header, ICMP, IPV4, Rule, TCP, UDP, first_match, station, unicast_address};

/// How often a header is repeated: at least once, and more than `n` times with probability `(scale / n)^shape`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// The exponent. The smaller it is, the longer are the longest repetitions.
    pub shape: f64,
    /// The scale; 0 means that each header occurs once.
    pub scale: f64,
}

impl Locality {
    /// Each header occurs once.
    pub const NONE: Self = Self { shape: 1.0, scale: 0.0 };
    /// A few headers are repeated often.
    pub const LOW: Self = Self { shape: 1.0, scale: 0.1 };
    /// Most headers are repeated.
    pub const HIGH: Self = Self { shape: 1.0, scale: 1.0 };

    fn copies(&self, random: &mut fastrand::Rng, most: usize) -> usize {
        // The inverse of the distribution. `f64()` is below 1, so the divisor is not 0.
        let drawn = self.scale / (1.0 - random.f64()).powf(1.0 / self.shape);
        (drawn as usize).clamp(1, most.max(1))
    }
}

/// A trace to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trace {
    /// The number of headers.
    pub headers: usize,
    /// Percentage of headers that match no rule. If the rules match everything, there are none.
    pub misses: u32,
    /// How headers are repeated.
    pub locality: Locality,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The number of attempts to find a header that matches no rule.
const TRIES: usize = 64;

impl Trace {
    /// A trace without repetitions. One header in twenty matches no rule.
    #[must_use]
    pub fn new(headers: usize) -> Self {
        Self { headers, misses: 5, locality: Locality::NONE, seed: 0 }
    }

    /// Makes the headers. Those that must match no rule are compared with each of the rules.
    #[must_use]
    pub fn make(&self, rules: &[Rule]) -> Vec<Header> {
        let mut random = random(self.seed, "trace");
        let mut headers = Vec::with_capacity(self.headers);
        while headers.len() < self.headers {
            let missing = rules.is_empty() || random.u32(..100) < self.misses;
            let header = match missing.then(|| miss(rules, &mut random)).flatten() {
                Some(header) => header,
                None => match random.choice(rules) {
                    Some(rule) => hit(rule, &mut random),
                    None => anything(&mut random),
                },
            };
            let copies = self.locality.copies(&mut random, self.headers - headers.len());
            headers.extend(std::iter::repeat_n(header, copies));
        }
        headers
    }
}

/// A header that matches a rule. In half of the fields it is at a corner of the rule, in the others anywhere inside.
#[must_use]
pub fn hit(rule: &Rule, random: &mut fastrand::Rng) -> Header {
    let other = anything(random);
    let mut within = |first: u32, last: u32| match random.u8(..4) {
        0 => first,
        1 => last,
        _ => random.u32(first..=last),
    };
    let ports = rule.ports.map(|(first, last)| within(first.into(), last.into()) as u16);
    let addresses = [0, 1].map(|end| match rule.nets[end] {
        // The corners of the range of all addresses cannot be addresses of hosts.
        net if net.length == 0 => other.addresses[end],
        net => within(net.address, net.last()),
    });
    let asks_ports = rule.ports.iter().any(|range| *range != super::rules::ALL_PORTS);
    let protocol = match rule.protocol {
        Some(protocol) => protocol,
        None if asks_ports => [TCP, UDP][random.usize(..2)],
        None => other.protocol,
    };
    Header {
        ethernet: [0, 1].map(|end| rule.ethernet[end].unwrap_or(other.ethernet[end])),
        ether_type: rule.ether_type.unwrap_or(IPV4),
        addresses,
        protocol,
        ports,
    }
}

/// A header that matches no rule, if one is found soon: a neighbour of one that does, or a random one.
#[must_use]
pub fn miss(rules: &[Rule], random: &mut fastrand::Rng) -> Option<Header> {
    (0..TRIES).find_map(|_| {
        let mut header = match random.choice(rules).filter(|_| random.bool()) {
            Some(rule) => hit(rule, random),
            None => anything(random),
        };
        // A wrong bound would include a neighbour of a corner.
        match random.u8(..5) {
            0 => header.addresses[0] = header.addresses[0].wrapping_sub(1),
            1 => header.addresses[1] = header.addresses[1].wrapping_add(1),
            2 => header.ports[1] = header.ports[1].wrapping_add(1),
            3 => header.protocol ^= 1 << random.u8(..8),
            _ => {}
        }
        first_match(rules, &header).is_none().then_some(header)
    })
}

/// A header of IPv4 that any host could send.
#[must_use]
pub fn anything(random: &mut fastrand::Rng) -> Header {
    Header {
        ethernet: [station(random.u16(..)), station(random.u16(..))],
        ether_type: IPV4,
        addresses: [unicast_address(random), unicast_address(random)],
        protocol: random.choice([TCP, TCP, UDP, ICMP]).unwrap_or(TCP),
        ports: [random.u16(..), random.u16(..)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{Fields, KINDS, RuleSet};
    use super::*;

    #[test]
    fn hits_match_a_rule_and_misses_match_none() {
        let mut random = fastrand::Rng::with_seed(7);
        for fields in [Fields::Five, Fields::Seven] {
            for kind in &KINDS {
                let rules = RuleSet { fields, ..RuleSet::new(kind, 300) }.make();
                for rule in &rules {
                    let header = hit(rule, &mut random);
                    assert!(rule.holds(&header), "{rule} {header:?}");
                }
                for _ in 0..100 {
                    if let Some(header) = miss(&rules, &mut random) {
                        assert_eq!(first_match(&rules, &header), None);
                    }
                }
            }
        }
    }

    #[test]
    fn the_corners_of_a_rule_are_met() {
        let rule = Rule { ports: [(7, 9), (0, 65535)], protocol: Some(UDP), ..Rule::any(0) };
        let mut random = fastrand::Rng::with_seed(1);
        let ports: Vec<u16> = (0..100).map(|_| hit(&rule, &mut random).ports[0]).collect();
        assert!(ports.contains(&7) && ports.contains(&9), "{ports:?}");
    }

    #[test]
    fn the_percentage_of_misses_is_as_requested() {
        let rules = RuleSet::new(&KINDS[0], 100).make();
        for misses in [0, 30, 100] {
            let made = Trace { misses, ..Trace::new(2000) }.make(&rules);
            assert_eq!(made.len(), 2000);
            let missed = made.iter().filter(|it| first_match(&rules, it).is_none()).count();
            assert!(missed.abs_diff(20 * misses as usize) < 100, "{misses}: {missed}");
        }
        // The rules match everything.
        let made = Trace { misses: 100, ..Trace::new(50) }.make(&[Rule::any(0)]);
        assert_eq!(made.len(), 50);
        assert_eq!(Trace::new(50).make(&[]).len(), 50);
    }

    #[test]
    fn locality_repeats_headers() {
        let rules = RuleSet::new(&KINDS[0], 100).make();
        let different = |locality| {
            let headers = Trace { locality, ..Trace::new(20_000) }.make(&rules);
            headers.into_iter().collect::<std::collections::HashSet<_>>().len()
        };
        let [none, low, high] = [Locality::NONE, Locality::LOW, Locality::HIGH].map(different);
        assert!(none > 15_000, "{none}");
        assert!((none / 2..none).contains(&low), "{low}");
        assert!(high < 6_000, "{high}");
    }

    #[test]
    fn the_seed_decides() {
        let rules = RuleSet::new(&KINDS[0], 50).make();
        let trace = Trace::new(100);
        assert_eq!(trace.make(&rules), trace.make(&rules));
        assert_ne!(trace.make(&rules), Trace { seed: 1, ..trace }.make(&rules));
    }
}
