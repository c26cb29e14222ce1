//! Rule sets like those of real firewalls and routers, and packets for them, always the same.
//!
//! The kinds and their statistics are those of ClassBench (Taylor and Turner, IEEE/ACM ToN 15(3),
//! 2007): how many different prefixes 10,000 rules have, how many have a true range of ports. The
//! generator is our own and knows nothing of the dependence between fields that ClassBench's seeds
//! record, but that prefixes lie in each other and that few of them are in many rules.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Where random numbers start.
const SEED: u64 = 0x7275_6c65;

/// A kind of rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Different prefixes of source and destination in 10,000 rules.
    prefixes: [usize; 2],
    /// Percentage of rules for any source, any destination.
    any: [u8; 2],
    /// Percentage of rules with one port, with a range of ports, of the source and the destination.
    ports: [(u8, u8); 2],
}

/// Access lists, firewalls, and rules as ipchains had them.
pub(crate) const KINDS: [Kind; 3] = [
    Kind { name: "acl", prefixes: [4543, 969], any: [1, 4], ports: [(0, 0), (55, 12)] },
    Kind { name: "fw", prefixes: [4081, 7329], any: [35, 12], ports: [(10, 4), (45, 6)] },
    Kind { name: "ipc", prefixes: [1562, 2797], any: [12, 10], ports: [(10, 4), (38, 8)] },
];

/// A prefix: address and length.
type Prefix = (u32, u8);

/// First and last port.
type Range = (u16, u16);

/// What a rule asks of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    nets: [Prefix; 2],
    protocol: Option<u8>,
    ports: [Range; 2],
    /// Whether IPFilter lets the packets pass.
    pub(crate) allow: bool,
}

/// What a packet has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    addresses: [u32; 2],
    protocol: u8,
    ports: [u16; 2],
}

const ALL_PORTS: Range = (0, u16::MAX);
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

impl Rule {
    /// The rule as an expression.
    pub(crate) fn text(&self) -> String {
        let mut parts = Vec::new();
        for (end, (address, length)) in ["src", "dst"].iter().zip(self.nets) {
            if length > 0 {
                parts.push(format!("{end} net {}/{length}", Ipv4Addr::from_bits(address)));
            }
        }
        match self.protocol {
            Some(TCP) => parts.push("tcp".to_owned()),
            Some(UDP) => parts.push("udp".to_owned()),
            Some(other) => parts.push(format!("ip proto {other}")),
            None => {}
        }
        for (end, (first, last)) in ["src", "dst"].iter().zip(self.ports) {
            match (first, last) {
                ALL_PORTS => {}
                (first, last) if first == last => parts.push(format!("{end} port {first}")),
                (first, u16::MAX) => parts.push(format!("{end} port >= {first}")),
                (0, last) => parts.push(format!("{end} port <= {last}")),
                (first, last) => {
                    parts.push(format!("{end} port >= {first} && {end} port <= {last}"));
                }
            }
        }
        if parts.is_empty() { "all".to_owned() } else { parts.join(" && ") }
    }

    /// Whether a packet satisfies the rule.
    pub(crate) fn holds(&self, header: &Header) -> bool {
        let has_ports = matches!(header.protocol, TCP | UDP);
        let nets = self.nets.iter().zip(header.addresses);
        let ports = self.ports.iter().zip(header.ports);
        self.protocol.is_none_or(|protocol| protocol == header.protocol)
            && nets.into_iter().all(|((net, length), address)| address & mask(*length) == *net)
            && ports.into_iter().all(|(range, port)| {
                *range == ALL_PORTS || has_ports && (range.0..=range.1).contains(&port)
            })
    }
}

impl Header {
    /// A frame of 64 bytes without checksum; what has no ports of its own has zeros there.
    pub(crate) fn frame(&self) -> Option<[u8; 60]> {
        let mut frame = [0; 60];
        let (ethernet, ip) = frame.split_at_mut(14);
        ethernet.copy_from_slice(&[2, 0, 10, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
        ip.get_mut(..28)?.copy_from_slice(&self.bytes());
        ip[2..4].copy_from_slice(&46_u16.to_be_bytes());
        millrace_core::headers::Ipv4Header::fill_checksum(ip).then_some(frame)
    }

    /// The IP datagram, without a payload.
    pub(crate) fn bytes(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..12].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, self.protocol, 0, 0]);
        bytes[12..16].copy_from_slice(&self.addresses[0].to_be_bytes());
        bytes[16..20].copy_from_slice(&self.addresses[1].to_be_bytes());
        bytes[20..22].copy_from_slice(&self.ports[0].to_be_bytes());
        bytes[22..24].copy_from_slice(&self.ports[1].to_be_bytes());
        bytes
    }
}

/// `count` different rules of a kind.
pub(crate) fn rules(kind: &Kind, count: usize) -> Vec<Rule> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let scaled = |prefixes: usize| (prefixes * count).div_ceil(10_000).max(1);
    let pools = kind.prefixes.map(|prefixes| pool(scaled(prefixes), &mut random));
    // How many of each pool have been in a rule.
    let mut used = [0, 0];
    let mut seen = HashSet::new();
    let mut rules: Vec<Rule> = Vec::with_capacity(count);
    while rules.len() < count {
        let mut net = |end: usize| match random.u8(..100) < kind.any[end] {
            true => (0, 0),
            false => draw(&pools[end], count, &mut used[end], &mut random),
        };
        let nets = [net(0), net(1)];
        let protocol = match random.u8(..100) {
            0..70 => Some(TCP),
            70..90 => Some(UDP),
            90..94 => Some(ICMP),
            _ => None,
        };
        let mut ports = kind.ports.map(|shares| port_range(shares, &mut random));
        if !matches!(protocol, Some(TCP | UDP)) {
            ports = [ALL_PORTS; 2];
        }
        let rule = Rule { nets, protocol, ports, allow: random.bool() };
        let mut text = rule.text();
        let _ = write!(text, "{}", rule.ports[1].0);
        if seen.insert(text) {
            rules.push(rule);
        }
    }
    // Real sets put what is more special first.
    rules.sort_by_key(|rule| {
        let bits = rule.nets[0].1 / 8 + rule.nets[1].1 / 8;
        std::cmp::Reverse((bits > 3, bits > 0))
    });
    rules
}

/// Different prefixes, a third of which lie in another one.
fn pool(count: usize, random: &mut fastrand::Rng) -> Vec<Prefix> {
    let mut seen = HashSet::new();
    let mut prefixes: Vec<Prefix> = Vec::with_capacity(count);
    while prefixes.len() < count {
        let length = match random.u8(..100) {
            0..35 => 32,
            35..60 => random.u8(25..32),
            60..85 => 24,
            85..97 => random.u8(16..24),
            _ => random.u8(8..16),
        };
        let around = if random.u8(..3) == 0 { random.choice(&prefixes).copied() } else { None };
        let address = match around {
            Some((address, around)) if around < length => address | random.u32(..) & !mask(around),
            _ => random.u32(..),
        };
        let prefix = (address & mask(length), length);
        if seen.insert(prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// One of a pool: the next new one as often as makes them last for `count` rules, else one of the
/// tenth in front.
fn draw(pool: &[Prefix], count: usize, used: &mut usize, random: &mut fastrand::Rng) -> Prefix {
    let at = if random.usize(..count) < pool.len() {
        *used += 1;
        (*used - 1) % pool.len()
    } else {
        random.usize(..pool.len().div_ceil(10))
    };
    pool.get(at).copied().unwrap_or_default()
}

fn port_range((one, range): (u8, u8), random: &mut fastrand::Rng) -> Range {
    const KNOWN: [u16; 12] = [20, 21, 22, 23, 25, 53, 80, 110, 123, 161, 443, 1521];
    let share = random.u8(..100);
    if share < one {
        let port = match random.u8(..3) {
            0 => random.u16(..),
            _ => random.choice(KNOWN).unwrap_or(80),
        };
        (port, port)
    } else if share < one + range {
        match random.u8(..4) {
            0 | 1 => (1024, u16::MAX),
            2 => (0, 1023),
            _ => {
                let first = random.u16(..60_000);
                (first, first + random.u16(1..5000))
            }
        }
    } else {
        ALL_PORTS
    }
}

/// `count` different rules of two shapes: a network of the source and one of the destination, TCP or UDP, and
/// one port of the destination.
pub(crate) fn rules_of_few_shapes(count: usize) -> Vec<Rule> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 2);
    let mut seen = HashSet::new();
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let port = random.u16(1..10_000);
        let mut net = |length| (random.u32(0x0100_0000..0xdf00_0000) & mask(length), length);
        let rule = Rule {
            nets: [net(16), net(24)],
            protocol: Some(if random.bool() { TCP } else { UDP }),
            ports: [ALL_PORTS, (port, port)],
            allow: random.bool(),
        };
        if seen.insert(rule.text()) {
            rules.push(rule);
        }
    }
    rules
}

/// Packets of which most lie in a rule that is drawn by lot.
pub(crate) fn headers(rules: &[Rule], count: usize) -> Vec<Header> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 1);
    let mut header = || {
        let rule = random.choice(rules).filter(|_| random.u8(..20) > 0);
        let mut address = |end: usize| {
            let (net, length) = rule.map_or((0, 0), |rule| rule.nets[end]);
            net | random.u32(..) & !mask(length)
        };
        let addresses = [address(0), address(1)];
        let any = [TCP, UDP, ICMP];
        let protocol = rule.and_then(|rule| rule.protocol);
        let protocol = protocol.unwrap_or_else(|| random.choice(any).unwrap_or(TCP));
        let mut port = |end: usize| {
            let (first, last) = rule.map_or(ALL_PORTS, |rule| rule.ports[end]);
            random.u16(first..=last)
        };
        Header { addresses, protocol, ports: [port(0), port(1)] }
    };
    (0..count).map(|_| header()).collect()
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_statistics_of_their_kind() {
        for kind in &KINDS {
            let made = rules(kind, 10_000);
            assert_eq!(made, rules(kind, 10_000));
            for (end, wanted) in kind.prefixes.into_iter().enumerate() {
                let nets: HashSet<Prefix> = made.iter().map(|rule| rule.nets[end]).collect();
                let least = wanted * 6 / 10;
                assert!((least..=wanted + 1).contains(&nets.len()), "{} {}", kind.name, nets.len());
            }
            let is_true = |range: &Range| *range != ALL_PORTS && range.0 != range.1;
            let with_range = made.iter().filter(|rule| rule.ports.iter().any(is_true)).count();
            assert!((600..1400).contains(&with_range), "{} {with_range}", kind.name);
        }
    }

    #[test]
    fn packets_satisfy_rules() {
        let rules = rules(&KINDS[0], 1000);
        let headers = headers(&rules, 1000);
        let matched = headers.iter().filter(|header| rules.iter().any(|rule| rule.holds(header)));
        assert!(matched.count() > 900);
    }
}
