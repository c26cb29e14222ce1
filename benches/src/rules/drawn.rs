//! Rules of any shape, drawn by seed, and packets for them: networks and hosts, protocols, ports and ranges of ports,
//! flags of TCP, types of ICMP, times to live; and each of these negated, or one of several.
//!
//! The first rule that holds decides. What it decides is worked out here one condition after the other, so that
//! programs can be held against it before they are timed.

use std::fmt::Write as _;

use anyhow::Context;
use etherparse::{Icmpv4Type, PacketBuilder};
use fastrand::Rng;

use crate::traffic::FRAME_LEN;

/// Which rules, and which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// The number of rules without the last one, which accepts everything.
    pub(crate) count: u32,
    /// The seed of random numbers.
    pub(crate) seed: u8,
    /// True if packets match rules, each rule equally often; otherwise they match only the last rule.
    pub(crate) hits: bool,
}

/// A frame, and the output that the rules choose for it.
pub(crate) type Judged = ([u8; FRAME_LEN], usize);

/// A rule: an output, and conditions that must all hold.
struct Rule {
    output: usize,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
enum Condition {
    Net(Side, u32, u8),
    Protocol(u8),
    Port(Side, Vec<u16>),
    PortFrom(Side, u16),
    Flag(usize),
    IcmpType(u8),
    TtlBelow(u8),
    Not(Box<Condition>),
    AnyOf(Vec<Condition>),
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Source,
    Destination,
    Either,
}

/// The fields that conditions examine.
#[derive(Clone, Copy, Debug)]
struct Header {
    addresses: [u32; 2],
    protocol: u8,
    ports: [u16; 2],
    flags: u8,
    icmp_type: u8,
    ttl: u8,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Flags of TCP from the lowest bit on.
const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

/// ICMP types of rules and packets.
const ICMP_TYPES: [u8; 4] = [0, 3, 8, 11];

/// Ports of many rules.
const PORTS: [u16; 8] = [22, 25, 53, 80, 123, 443, 3306, 8080];

impl Drawn {
    /// The part of a file name for it, as short as names of sockets must be: the number of rules, and the seed.
    pub(crate) fn name(self) -> String {
        let traffic = if self.hits { "hit" } else { "missed" };
        format!("{}r{}-{traffic}", self.count, self.seed)
    }

    /// The rules as IPFilter reads them from a file.
    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        for rule in self.rules() {
            let conditions: Vec<String> = rule.conditions.iter().map(Condition::text).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {}", rule.output, conditions.join(" && "));
        }
        text + "0 all\n"
    }

    /// Packets for the rules in random order.
    ///
    /// # Errors
    /// No packet can be found for the rules.
    pub(crate) fn frames(self, count: usize) -> anyhow::Result<Vec<Judged>> {
        let (rules, mut random) = (self.rules(), self.random(1));
        let first = |header: &Header| rules.iter().position(|rule| rule.holds(header));
        let mut frames = Vec::with_capacity(count);
        // A rule that earlier rules contain has no packets.
        for _ in 0..count * 1000 {
            let aim = self.hits.then(|| random.usize(..rules.len()));
            let header = Header::draw(aim.and_then(|aim| rules.get(aim)), &mut random);
            if frames.len() < count && first(&header) == aim {
                let output = aim.and_then(|aim| rules.get(aim)).map_or(0, |rule| rule.output);
                frames.push((header.frame(&mut random)?, output));
            }
        }
        (frames.len() == count).then_some(frames).context("rules without packets")
    }

    fn rules(self) -> Vec<Rule> {
        let mut random = self.random(0);
        (0..self.count).map(|_| Rule::draw(&mut random)).collect()
    }

    fn random(self, stream: u64) -> Rng {
        Rng::with_seed(u64::from(self.count) << 16 | u64::from(self.seed) << 8 | stream)
    }
}

impl Rule {
    fn draw(random: &mut Rng) -> Self {
        let anchor = Condition::net(random);
        let others = (0..random.usize(..4)).map(|_| Condition::draw(random, 0));
        let conditions = std::iter::once(anchor).chain(others).collect();
        Self { output: random.usize(..2), conditions }
    }

    fn holds(&self, header: &Header) -> bool {
        self.conditions.iter().all(|condition| condition.holds(header))
    }
}

impl Condition {
    /// A network that contains few of all packets.
    fn net(random: &mut Rng) -> Self {
        let length = random.choice([12, 16, 16, 20, 24, 24, 24, 28, 32]).unwrap_or(24);
        let address = random.u32(0x0100_0000..0xdf00_0000) & mask(length);
        Self::Net(Side::draw(random), address, length)
    }

    fn draw(random: &mut Rng, depth: u8) -> Self {
        match random.u8(..if depth < 2 { 10 } else { 7 }) {
            0 => Self::Protocol(random.choice([ICMP, TCP, TCP, UDP]).unwrap_or(TCP)),
            1 => Self::Port(Side::draw(random), vec![port(random)]),
            2 => {
                let ports = (0..random.usize(2..5)).map(|_| port(random)).collect();
                Self::Port(Side::draw(random), ports)
            }
            3 => Self::PortFrom(Side::draw(random), random.u16(1..50_000)),
            4 => Self::Flag(random.usize(..FLAGS.len())),
            5 => Self::IcmpType(random.choice(ICMP_TYPES).unwrap_or(8)),
            6 => Self::TtlBelow(random.u8(32..)),
            7 => Self::Not(Box::new(Self::draw(random, depth + 1))),
            8 => Self::Not(Box::new(Self::net(random))),
            _ => Self::AnyOf(
                (0..random.usize(2..4)).map(|_| Self::draw(random, depth + 1)).collect(),
            ),
        }
    }

    fn holds(&self, header: &Header) -> bool {
        let has_ports = matches!(header.protocol, TCP | UDP);
        match self {
            Self::Net(side, net, length) => {
                side.any(header.addresses, |address| address & mask(*length) == *net)
            }
            Self::Protocol(protocol) => header.protocol == *protocol,
            Self::Port(side, ports) => {
                has_ports && side.any(header.ports, |port| ports.contains(&port))
            }
            Self::PortFrom(side, least) => {
                has_ports && side.any(header.ports, |port| port >= *least)
            }
            Self::Flag(flag) => header.protocol == TCP && header.flags >> flag & 1 == 1,
            Self::IcmpType(kind) => header.protocol == ICMP && header.icmp_type == *kind,
            Self::TtlBelow(bound) => header.ttl < *bound,
            Self::Not(condition) => !condition.holds(header),
            Self::AnyOf(conditions) => conditions.iter().any(|condition| condition.holds(header)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Net(side, net, length) => {
                format!("{}net {}/{length}", side.text(), std::net::Ipv4Addr::from_bits(*net))
            }
            Self::Protocol(protocol) => format!("ip proto {protocol}"),
            Self::Port(side, ports) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                format!("({}port {})", side.text(), ports.join(" or "))
            }
            Self::PortFrom(side, least) => format!("{}port >= {least}", side.text()),
            Self::Flag(flag) => {
                format!("tcp opt {}", FLAGS.get(*flag).copied().unwrap_or_default())
            }
            Self::IcmpType(kind) => format!("icmp type {kind}"),
            Self::TtlBelow(bound) => format!("ip ttl < {bound}"),
            Self::Not(condition) => format!("not ({})", condition.text()),
            Self::AnyOf(conditions) => {
                let conditions: Vec<String> = conditions.iter().map(Self::text).collect();
                format!("({})", conditions.join(" || "))
            }
        }
    }

    /// Changes a header so that the condition probably holds.
    fn incline(&self, header: &mut Header, random: &mut Rng) {
        match self {
            Self::Net(side, net, length) => {
                let place = side.place(random);
                header.addresses[place] = net | random.u32(..) & !mask(*length);
            }
            Self::Protocol(protocol) => header.protocol = *protocol,
            Self::Port(side, ports) => {
                header.ports[side.place(random)] = random.choice(ports).copied().unwrap_or(1);
                header.protocol = random.choice([TCP, UDP]).unwrap_or(TCP);
            }
            Self::PortFrom(side, least) => {
                header.ports[side.place(random)] = random.u16(*least..);
            }
            Self::Flag(flag) => {
                header.protocol = TCP;
                header.flags |= 1 << flag;
            }
            Self::IcmpType(kind) => {
                header.protocol = ICMP;
                header.icmp_type = *kind;
            }
            Self::TtlBelow(bound) => header.ttl = random.u8(2..*bound),
            Self::Not(_) => {}
            Self::AnyOf(conditions) => {
                if let Some(condition) = random.choice(conditions) {
                    condition.incline(header, random);
                }
            }
        }
    }
}

impl Side {
    fn draw(random: &mut Rng) -> Self {
        random
            .choice([Self::Source, Self::Destination, Self::Destination, Self::Either])
            .unwrap_or(Self::Either)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Source => "src ",
            Self::Destination => "dst ",
            Self::Either => "",
        }
    }

    fn any<T: Copy>(self, [source, destination]: [T; 2], holds: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => holds(source),
            Self::Destination => holds(destination),
            Self::Either => holds(source) || holds(destination),
        }
    }

    fn place(self, random: &mut Rng) -> usize {
        match self {
            Self::Source => 0,
            Self::Destination => 1,
            Self::Either => random.usize(..2),
        }
    }
}

impl Header {
    /// A header that probably matches a rule, if one is given.
    fn draw(rule: Option<&Rule>, random: &mut Rng) -> Self {
        let mut header = Self {
            addresses: [(); 2].map(|()| random.u32(0x0100_0000..0xdf00_0000)),
            protocol: random.choice([ICMP, TCP, TCP, TCP, UDP, UDP]).unwrap_or(TCP),
            ports: [random.u16(1024..), port(random)],
            flags: random.u8(..64),
            icmp_type: random.choice(ICMP_TYPES).unwrap_or(8),
            ttl: random.u8(2..),
        };
        for condition in rule.iter().flat_map(|rule| &rule.conditions) {
            condition.incline(&mut header, random);
        }
        header
    }

    fn frame(&self, random: &mut Rng) -> anyhow::Result<[u8; FRAME_LEN]> {
        const BEFORE: usize = 14 + 20;
        let [source, destination] = self.addresses.map(u32::to_be_bytes);
        let ip = PacketBuilder::ethernet2([2, 0, 10, 0, 0, 2], [2, 0, 10, 0, 0, 1]).ipv4(
            source,
            destination,
            self.ttl,
        );
        let mut payload = [0; FRAME_LEN - BEFORE - 8];
        random.fill(&mut payload);
        // A number and its complement can be written here without changing the checksum.
        if let Some(end) = payload.last_chunk_mut() {
            *end = [0xff, 0xff, 0, 0];
        }
        let mut bytes = Vec::with_capacity(FRAME_LEN);
        let [from, to] = self.ports;
        match self.protocol {
            TCP => {
                let mut tcp = ip.tcp(from, to, random.u32(..), 8192);
                let has = |flag: usize| self.flags >> flag & 1 == 1;
                if has(0) {
                    tcp = tcp.fin();
                }
                if has(1) {
                    tcp = tcp.syn();
                }
                if has(2) {
                    tcp = tcp.rst();
                }
                if has(3) {
                    tcp = tcp.psh();
                }
                if has(4) {
                    tcp = tcp.ack(1);
                }
                if has(5) {
                    tcp = tcp.urg(1);
                }
                tcp.write(&mut bytes, payload.get(12..).unwrap_or_default())?;
            }
            UDP => ip.udp(from, to).write(&mut bytes, &payload)?,
            _ => {
                let kind =
                    Icmpv4Type::Unknown { type_u8: self.icmp_type, code_u8: 0, bytes5to8: [0; 4] };
                ip.icmpv4(kind).write(&mut bytes, &payload)?;
            }
        }
        bytes.as_slice().try_into().context("a frame of another length")
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

fn port(random: &mut Rng) -> u16 {
    match random.bool() {
        true => random.choice(PORTS).unwrap_or(80),
        false => random.u16(1..10_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::{Configuration, Length};
    use crate::graph::Graph;

    #[test]
    fn packets_are_in_all_rules_or_in_the_last_alone() {
        for (seed, hits) in [(0, false), (1, true), (2, true)] {
            let drawn = Drawn { count: 20, seed, hits };
            assert_eq!(drawn.text().lines().count(), 21);
            let frames = drawn.frames(200).unwrap();
            assert_eq!(frames.iter().any(|(_, output)| *output > 0), hits, "{}", drawn.text());
            assert_eq!(frames, drawn.frames(200).unwrap());
        }
    }

    #[test]
    fn rules_have_many_shapes() {
        let text = Drawn { count: 200, seed: 0, hits: false }.text();
        for part in ["src net", "dst net", " or ", "||", "not (", "tcp opt", "icmp type", ">="] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn the_element_decides_as_is_worked_out_here() {
        for (count, seed, hits) in [(10, 1, true), (100, 2, true), (100, 1, false)] {
            let drawn = Drawn { count, seed, hits };
            let frames = drawn.frames(500).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let rules = folder.path().join("rules");
            std::fs::write(&rules, drawn.text()).unwrap();
            let text = format!(
                "FromDevice(eth0, BURST $burst) -> CheckIPHeader(14) -> f :: IPFilter(file \"{}\");
                 f[0] -> ToDevice(out0); f[1] -> ToDevice(out1);",
                rules.display()
            );
            let configuration = Configuration { graph: Graph::new("x", text), class: None };
            let trace = frames.iter().map(|(frame, _)| *frame).collect();
            let length = Length { warm_up: 0, slice: 500, slices: 1, keep: true };
            let core = crate::machine::last_core().unwrap();
            let sent = configuration.run(32, core, &trace, length).unwrap().transmitted;
            for output in 0..2 {
                let wanted: Vec<Vec<u8>> = frames
                    .iter()
                    .filter(|(_, to)| *to == output)
                    .map(|(frame, _)| frame.to_vec())
                    .collect();
                let sent = sent.get(&format!("out{output}")).cloned().unwrap_or_default();
                assert!(sent == wanted, "{}, output {output}", drawn.name());
            }
        }
    }
}
