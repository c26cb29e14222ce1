//! The generator of rule sets.
//!
//! 1. Draw the tuples that the set has, and for each rule one of them.
//! 2. For each length of prefix and each end make a pool of as many prefixes as the set is to have.
//! 3. For each rule take a prefix of each pool: a new one as often as uses up the pool just when the rules end, else one
//!    that has been taken, the first ones most often.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::statistics::Ports;
use super::{ALL_PORTS, ICMP, IPV4, Kind, PortRange, Prefix, Rule, TCP, Tuple, UDP};
use crate::generate::{random, weighted};

/// The fields that rules have conditions on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fields {
    /// The five fields of IP, as in ClassBench.
    #[default]
    Five,
    /// These and the three fields of Ethernet: most rules name IPv4, some an Ethernet address, and a few are for ARP,
    /// LLDP or MPLS, which have no IP fields.
    Seven,
}

/// A rule set to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// The kind whose statistics it has.
    pub kind: &'static Kind,
    /// The number of rules.
    pub rules: usize,
    /// The fields that they have conditions on.
    pub fields: Fields,
    /// The number of different actions; at least 1.
    pub actions: u16,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The number of attempts to make a different rule before another tuple is tried.
const TRIES: usize = 200;

/// The number of stations in Ethernet fields.
const STATIONS: u16 = 256;

impl RuleSet {
    /// A set of a kind in the form of ClassBench, with four actions.
    #[must_use]
    pub fn new(kind: &'static Kind, rules: usize) -> Self {
        Self { kind, rules, fields: Fields::Five, actions: 4, seed: 0 }
    }

    /// Makes the rules, which all have different conditions.
    #[must_use]
    pub fn make(&self) -> Vec<Rule> {
        let mut random = random(self.seed, self.kind.name);
        let tuples = Tuples::draw(self.kind, self.rules, &mut random);
        let mut of_rules = tuples.of_rules;
        random.shuffle(&mut of_rules);
        let mut pools = [0, 1].map(|end| Pools::new(self, end, &of_rules, &mut random));
        let mut seen = HashSet::new();
        let mut rules = Vec::with_capacity(self.rules);
        for tuple in of_rules {
            let mut tuple = tuple;
            let mut nets = [0, 1].map(|end| pools[end].take(tuple.lengths[end], &mut random));
            let mut tries = 0;
            let rule = loop {
                let rule = self.rule(&tuple, nets, &mut random);
                if seen.insert(Rule { action: 0, ..rule.clone() }) {
                    break rule;
                }
                // Both prefixes are in earlier rules (otherwise the rule would be new), so they may be replaced.
                tries += 1;
                if tries % TRIES == 0 {
                    tuple = random.choice(&tuples.different).copied().unwrap_or(tuple);
                }
                nets = [0, 1].map(|end| pools[end].again(tuple.lengths[end], &mut random));
            };
            rules.push(rule);
        }
        // Real sets mostly have the more specific rules first.
        rules.sort_by_key(|rule: &Rule| {
            let bits = rule.nets[0].length / 8 + rule.nets[1].length / 8;
            std::cmp::Reverse((bits > 3, bits > 0))
        });
        rules
    }

    fn rule(&self, tuple: &Tuple, nets: [Prefix; 2], random: &mut fastrand::Rng) -> Rule {
        let ports = tuple.ports.map(|ports| port_range(ports, random));
        let services: &[(u8, u32)] = match ports == [ALL_PORTS; 2] {
            true => &[(TCP, 45), (UDP, 20), (ICMP, 25), (47, 4), (50, 4), (89, 2)],
            false => &[(TCP, 75), (UDP, 25)],
        };
        let protocol = tuple.protocol.then(|| weighted(random, services).unwrap_or(TCP));
        let action = random.u16(..self.actions.max(1));
        let mut rule = Rule { nets, ports, protocol, ..Rule::any(action) };
        if self.fields == Fields::Seven {
            add_ethernet(&mut rule, random);
        }
        rule
    }
}

/// The tuples of a set.
struct Tuples {
    /// Each tuple once.
    different: Vec<Tuple>,
    /// The tuple of each rule.
    of_rules: Vec<Tuple>,
}

impl Tuples {
    fn draw(kind: &Kind, rules: usize, random: &mut fastrand::Rng) -> Self {
        let wanted = kind.tuples_of(rules).max(1);
        // The fraction of ranges is the same among the tuples and among the rules.
        let ranged_rules = rules * kind.ranged as usize / 100;
        let ranged_tuples = (wanted * kind.ranged as usize).div_ceil(100).min(ranged_rules);
        let mut made = Self { different: Vec::new(), of_rules: Vec::new() };
        made.add(kind, true, ranged_tuples, ranged_rules, random);
        let without = wanted.saturating_sub(ranged_tuples).max(1);
        made.add(kind, false, without, rules - ranged_rules, random);
        made
    }

    /// Chooses different tuples with or without ranges, and one of them for each rule, so that each occurs at least
    /// once.
    fn add(
        &mut self,
        kind: &Kind,
        ranged: bool,
        different: usize,
        rules: usize,
        random: &mut fastrand::Rng,
    ) {
        if different == 0 || rules == 0 {
            return;
        }
        let mut room: HashMap<Tuple, usize> = HashMap::new();
        let different = different.min(rules);
        while room.len() < different {
            let tuple = draw_tuple(kind, ranged, random);
            if room.len() < different && !room.contains_key(&tuple) {
                room.insert(tuple, room_of(&tuple) - 1);
                self.different.push(tuple);
                self.of_rules.push(tuple);
            }
        }
        let mut left = rules - different;
        while left > 0 {
            let tuple = draw_tuple(kind, ranged, random);
            if let Some(room) = room.get_mut(&tuple).filter(|room| **room > 0) {
                *room -= 1;
                self.of_rules.push(tuple);
                left -= 1;
            }
        }
    }
}

fn draw_tuple(kind: &Kind, ranged: bool, random: &mut fastrand::Rng) -> Tuple {
    let lengths = kind.lengths.map(|lengths| weighted(random, lengths).unwrap_or(32));
    let mut ports = kind.ports.map(|one| match random.u32(..100) < one {
        true => Ports::One,
        false => Ports::Any,
    });
    if ranged {
        let [source, destination, both] = kind.range_ends;
        let ends = weighted(random, &[([0, 0], source), ([1, 1], destination), ([0, 1], both)]);
        for end in ends.unwrap_or([1, 1]) {
            ports[end] = Ports::Range;
        }
    }
    // Ports belong to a protocol.
    let protocol = ports != [Ports::Any; 2] || random.u32(..100) >= kind.any_protocol;
    Tuple { lengths, ports, protocol }
}

/// The number of rules with a tuple that can be made without many duplicates: a quarter of the possible rules.
fn room_of(tuple: &Tuple) -> usize {
    let nets = tuple.lengths.map(|length| 1_usize << length.min(16));
    let ports = tuple.ports.map(|ports| if ports == Ports::Any { 1 } else { 64 });
    let protocols = if tuple.protocol && ports == [1; 2] { 4 } else { 1 };
    (nets[0] * nets[1] * ports[0] * ports[1] * protocols / 4).max(1)
}

/// The prefixes of one end, by length.
struct Pools {
    by_length: HashMap<u8, Pool>,
}

#[derive(Default)]
struct Pool {
    prefixes: Vec<Prefix>,
    /// The number of prefixes at the start that are in rules.
    taken: usize,
    /// The number of rules that still need a prefix.
    rules: usize,
}

impl Pools {
    fn new(set: &RuleSet, end: usize, tuples: &[Tuple], random: &mut fastrand::Rng) -> Self {
        let mut rules: BTreeMap<u8, usize> = BTreeMap::new();
        for tuple in tuples {
            *rules.entry(tuple.lengths[end]).or_default() += 1;
        }
        let sizes = pool_sizes(set.kind.prefixes_of(set.rules)[end], &rules);
        // Shorter prefixes first, so that longer ones can be inside them.
        let mut shorter: Vec<Prefix> = Vec::new();
        let mut by_length = HashMap::new();
        for (&length, &rules) in &rules {
            let size = sizes.get(&length).copied().unwrap_or(1);
            let prefixes = different_prefixes(length, size, &shorter, random);
            if length > 0 {
                shorter.extend(&prefixes);
            }
            by_length.insert(length, Pool { prefixes, taken: 0, rules });
        }
        Self { by_length }
    }

    /// A prefix for the next rule.
    fn take(&mut self, length: u8, random: &mut fastrand::Rng) -> Prefix {
        let Some(pool) = self.by_length.get_mut(&length) else { return Prefix::ALL };
        let left = pool.prefixes.len() - pool.taken;
        let is_new = pool.taken == 0 || random.usize(..pool.rules.max(1)) < left;
        pool.rules = pool.rules.saturating_sub(1);
        if !is_new {
            return self.again(length, random);
        }
        pool.taken += 1;
        pool.prefixes.get(pool.taken - 1).copied().unwrap_or_default()
    }

    /// A prefix that was used before.
    fn again(&self, length: u8, random: &mut fastrand::Rng) -> Prefix {
        let Some(pool) = self.by_length.get(&length) else { return Prefix::ALL };
        // The cube of a uniform distribution puts half of the choices into the first eighth.
        let at = (random.f64().powi(3) * pool.taken as f64) as usize;
        pool.prefixes.get(at).copied().unwrap_or_default()
    }
}

/// The number of prefixes of each length, out of `wanted`, if this number of rules has it: in proportion, and at most
/// as many as exist.
fn pool_sizes(wanted: usize, rules: &BTreeMap<u8, usize>) -> BTreeMap<u8, usize> {
    let most = |length: u8, rules: usize| match length {
        // Some addresses are not unicast addresses.
        0..=20 => rules.min(((1 << length) * 3 / 4).max(1)),
        _ => rules,
    };
    let most: BTreeMap<u8, usize> =
        rules.iter().map(|(&at, &count)| (at, most(at, count))).collect();
    let all: usize = most.values().sum();
    let mut sizes: BTreeMap<u8, usize> =
        most.iter().map(|(&at, &most)| (at, (most * wanted / all.max(1)).clamp(1, most))).collect();
    // The rest that rounding and limits leave goes to the lengths with room, the long ones first.
    let mut left = wanted.saturating_sub(sizes.values().sum());
    for (at, size) in sizes.iter_mut().rev() {
        let room = most.get(at).map_or(0, |most| most - *size).min(left);
        *size += room;
        left -= room;
    }
    sizes
}

/// Different prefixes of a length. A third of them are inside one of the shorter ones.
fn different_prefixes(
    length: u8,
    count: usize,
    shorter: &[Prefix],
    random: &mut fastrand::Rng,
) -> Vec<Prefix> {
    let mut seen = HashSet::new();
    let mut prefixes = Vec::with_capacity(count);
    // There may be so few short prefixes that random choices do not find all of them.
    for _ in 0..count * 64 {
        if prefixes.len() == count {
            break;
        }
        let around = (random.u8(..3) == 0).then(|| random.choice(shorter)).flatten();
        let address = match around {
            Some(around) => around.address | random.u32(..) & !super::mask(around.length),
            None => unicast(random),
        };
        let prefix = Prefix::around(address, length);
        if seen.insert(prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// An address that a host can have: not in network 0, not a loopback address, not multicast.
pub(in crate::generate) fn unicast(random: &mut fastrand::Rng) -> u32 {
    let network = match random.u32(1..223) {
        127 => 223,
        network => network,
    };
    network << 24 | random.u32(..1 << 24)
}

fn port_range(ports: Ports, random: &mut fastrand::Rng) -> PortRange {
    const KNOWN: [u16; 12] = [20, 21, 22, 23, 25, 53, 80, 110, 123, 161, 443, 1521];
    match ports {
        Ports::Any => ALL_PORTS,
        Ports::One => {
            let port = match random.u8(..3) {
                0 => random.u16(..),
                _ => random.choice(KNOWN).unwrap_or(80),
            };
            (port, port)
        }
        // The two protocols that are in most sets, and any other.
        Ports::Range => match random.u8(..4) {
            0 => (1024, u16::MAX),
            1 => (0, 1023),
            _ => {
                let first = random.u16(1..60_000);
                (first, first + random.u16(1..5000))
            }
        },
    }
}

/// The Ethernet address of a station by its number.
pub(in crate::generate) fn station(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    // Locally administered, unicast.
    [0x02, 0x00, 0x5e, 0x10, high, low]
}

fn add_ethernet(rule: &mut Rule, random: &mut fastrand::Rng) {
    let asks_ip = rule.protocol.is_some() || rule.nets.iter().any(|net| net.length > 0);
    if asks_ip {
        rule.ether_type = (random.u8(..100) < 70).then_some(IPV4);
    } else {
        // ARP, LLDP, MPLS.
        rule.ether_type = random.choice([0x0806, 0x88cc, 0x8847]);
    }
    for (address, share) in rule.ethernet.iter_mut().zip([15, 25]) {
        if !asks_ip || random.u8(..100) < share {
            *address = Some(station(random.u16(..STATIONS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KINDS, Statistics};
    use super::*;

    /// The published figures, and how far ours may be from them.
    #[test]
    fn sets_have_the_statistics_of_their_kind() {
        for (kind, tuples, percent, prefixes) in [
            (&KINDS[0], 253, 12, [4543, 969]),
            (&KINDS[1], 264, 10, [4081, 7329]),
            (&KINDS[2], 646, 12, [1562, 2797]),
        ] {
            for (seed, fields) in [(0, Fields::Five), (1, Fields::Five), (2, Fields::Seven)] {
                let set = RuleSet { seed, fields, ..RuleSet::new(kind, 10_000) };
                let found = Statistics::of(&set.make());
                let near = |found: usize, wanted: usize, percent: usize| {
                    found.abs_diff(wanted) * 100 <= wanted * percent
                };
                assert_eq!(found.rules, 10_000);
                assert!(near(found.tuples, tuples, 1), "{}: {found}", kind.name);
                assert!(near(found.ranged, percent * 100, 5), "{}: {found}", kind.name);
                assert!(near(found.prefixes[0], prefixes[0], 2), "{}: {found}", kind.name);
                assert!(near(found.prefixes[1], prefixes[1], 2), "{}: {found}", kind.name);
                assert_eq!(found.ethernet > 7_000, fields == Fields::Seven, "{found}");
            }
        }
    }

    #[test]
    fn sets_of_every_size_are_made_of_different_rules() {
        for kind in &KINDS {
            for count in [1, 2, 10, 33, 100, 1000, 30_000] {
                let rules = RuleSet::new(kind, count).make();
                assert_eq!(rules.len(), count);
                let what = |rule: &Rule| Rule { action: 0, ..rule.clone() };
                let different: HashSet<Rule> = rules.iter().map(what).collect();
                assert_eq!(different.len(), count, "{} {count}", kind.name);
                assert!(rules.iter().all(|rule| rule.action < 4));
                for net in rules.iter().flat_map(|rule| rule.nets) {
                    assert_eq!(net, Prefix::around(net.address, net.length));
                }
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        let set = RuleSet::new(&KINDS[0], 500);
        assert_eq!(set.make(), set.make());
        assert_ne!(set.make(), RuleSet { seed: 1, ..set }.make());
    }

    #[test]
    fn prefixes_lie_in_each_other() {
        let rules = RuleSet::new(&KINDS[2], 1000).make();
        let nets: HashSet<Prefix> = rules.iter().map(|rule| rule.nets[0]).collect();
        let within = |net: &&Prefix| {
            let holds = |other: &Prefix| {
                (1..net.length).contains(&other.length) && other.contains(net.address)
            };
            nets.iter().any(holds)
        };
        assert!(nets.iter().filter(within).count() > nets.len() / 6);
    }
}
