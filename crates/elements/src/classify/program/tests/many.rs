//! Many rules: compares the index with the meaning of the rules, and with the decision program.

use std::fmt::Write;
use std::net::Ipv4Addr;

use millrace_core::args::Scope;
use proptest::prelude::*;

use super::super::live::LiveRules;
use super::super::{
    DROP, Engine, Expr, FilterProgram, IpSections, Jump, Layout, NETWORK, Otherwise, Test,
};
use super::naive;

/// A rule over addresses, protocol and ports, some with an additional condition.
#[derive(Clone, Debug)]
struct Rule {
    action: u8,
    /// Networks of source and destination: address and prefix length.
    nets: [(u32, u8); 2],
    protocol: Option<u8>,
    /// Ranges of TCP and UDP ports.
    ports: [(u16, u16); 2],
    extra: Option<Extra>,
}

#[derive(Clone, Copy, Debug)]
enum Extra {
    Syn,
    Ttl(u8),
    Option(u8),
    NotFragment,
    Host(u32),
}

impl Rule {
    fn text(&self) -> String {
        let mut text = match self.action {
            0 => "allow".to_owned(),
            1 => "1".to_owned(),
            _ => "drop".to_owned(),
        };
        for (end, (address, length)) in ["src", "dst"].iter().zip(self.nets) {
            let network = Ipv4Addr::from_bits(address & mask(length));
            let _ = write!(text, " {end} net {network}/{length}");
        }
        if let Some(protocol) = self.protocol {
            let _ = write!(text, " ip proto {protocol}");
        }
        for (end, (first, last)) in ["src", "dst"].iter().zip(self.ports) {
            match (first, last) {
                (0, u16::MAX) => {}
                (first, last) if first == last => _ = write!(text, " {end} port {first}"),
                _ => _ = write!(text, " {end} port >= {first} {end} port <= {last}"),
            }
        }
        match self.extra {
            None => {}
            Some(Extra::Syn) => text += " syn",
            Some(Extra::Ttl(ttl)) => _ = write!(text, " ip ttl < {ttl}"),
            Some(Extra::Option(byte)) => _ = write!(text, " ip[20] == {byte}"),
            Some(Extra::NotFragment) => text += " not ip frag",
            Some(Extra::Host(host)) => {
                _ = write!(text, " not (host {})", Ipv4Addr::from_bits(host));
            }
        }
        text
    }

    /// Whether a packet satisfies the rule, according to the manual.
    fn holds(&self, packet: &Packet) -> bool {
        let ip = &packet.bytes[..packet.bytes.len().min(packet.length)];
        let transport = ip.get(packet.header..).unwrap_or_default();
        let word = |at: usize| Some(u32::from_be_bytes(*ip.get(at..)?.first_chunk()?));
        let port = |at: usize| Some(u16::from_be_bytes(*transport.get(at..)?.first_chunk()?));
        let protocol = ip.get(9).copied();
        let fragment = ip.get(6..8).map(|it| u16::from_be_bytes([it[0], it[1]]));
        let behind = fragment.is_some_and(|it| it & 0x1fff == 0);
        for (at, (address, length)) in [12, 16].into_iter().zip(self.nets) {
            // Only the bytes of a network's address that its prefix covers need be present.
            let bytes = usize::from(length).div_ceil(8);
            let mut octets = [0; 4];
            match ip.get(at..at + bytes) {
                Some(there) => octets[..bytes].copy_from_slice(there),
                None if bytes == 0 => {}
                None => return false,
            }
            if u32::from_be_bytes(octets) & mask(length) != address & mask(length) {
                return false;
            }
        }
        if self.protocol.is_some() && self.protocol != protocol {
            return false;
        }
        for (at, (first, last)) in [0, 2].into_iter().zip(self.ports) {
            let of_ports = || matches!(protocol, Some(6 | 17)) && behind;
            let within = || port(at).is_some_and(|port| (first..=last).contains(&port));
            if (first, last) != (0, u16::MAX) && !(of_ports() && within()) {
                return false;
            }
        }
        match self.extra {
            None => true,
            Some(Extra::Syn) => {
                let flags = transport.get(13);
                protocol == Some(6) && behind && flags.is_some_and(|flags| flags & 2 != 0)
            }
            Some(Extra::Ttl(ttl)) => ip.get(8).is_some_and(|it| *it < ttl),
            Some(Extra::Option(byte)) => ip.get(20) == Some(&byte),
            Some(Extra::NotFragment) => fragment.is_none_or(|it| it & 0x3fff == 0),
            Some(Extra::Host(host)) => word(12) != Some(host) && word(16) != Some(host),
        }
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// An IP packet; its header may extend beyond its end.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Vec<u8>,
    header: usize,
    length: usize,
}

impl Packet {
    fn sections(&self) -> IpSections<'_> {
        let network = &self.bytes[..self.bytes.len().min(self.length)];
        let transport = network.get(self.header..).unwrap_or_default();
        IpSections { network, transport, ..IpSections::default() }
    }
}

fn address() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0..4_u32, 0..4_u32, 0..8_u32).prop_map(|(a, b, c)| 0x0a00_0000 | a << 16 | b << 8 | c),
        any::<u32>(),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![prop::sample::select(vec![0, 22, 53, 80, 443, 1023, 1024, 65535]), any::<u16>()]
}

fn rule() -> impl Strategy<Value = Rule> {
    let length = || prop::sample::select(vec![0, 0, 8, 15, 16, 22, 24, 29, 32, 32]);
    let net = || (address(), length());
    let range = || {
        prop_oneof![
            3 => Just((0, u16::MAX)),
            2 => port().prop_map(|port| (port, port)),
            1 => (port(), port()).prop_map(|(a, b)| (a.min(b), a.max(b))),
        ]
    };
    let extra = prop_oneof![
        20 => Just(None),
        1 => Just(Some(Extra::Syn)),
        1 => (1..255_u8).prop_map(|ttl| Some(Extra::Ttl(ttl))),
        1 => (0..4_u8).prop_map(|byte| Some(Extra::Option(byte))),
        1 => Just(Some(Extra::NotFragment)),
        1 => address().prop_map(|host| Some(Extra::Host(host))),
    ];
    let protocol = prop::sample::select(vec![None, Some(6), Some(6), Some(17), Some(1)]);
    (0..3_u8, [net(), net()], protocol, [range(), range()], extra).prop_map(
        |(action, nets, protocol, ports, extra)| Rule { action, nets, protocol, ports, extra },
    )
}

/// Packets with the addresses and ports of the rules, some with options, some truncated.
fn packet() -> impl Strategy<Value = Packet> {
    let protocol = prop::sample::select(vec![6_u8, 6, 17, 1, 47]);
    let fragment = prop::sample::select(vec![0_u16, 0, 0, 0x4000, 0x2000, 0x00b9]);
    let header = prop::sample::select(vec![20_usize, 20, 20, 24, 60]);
    let length = prop_oneof![4 => Just(usize::MAX), 1 => 0..90_usize];
    (protocol, fragment, header, [address(), address()], [port(), port()], any::<[u8; 4]>(), length)
        .prop_map(
            |(
                protocol,
                fragment,
                header,
                addresses,
                ports,
                [ttl, option, flags, noise],
                length,
            )| {
                let mut bytes = vec![noise; header + 20];
                bytes[0] = 0x40 | (header / 4) as u8;
                bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
                bytes[8] = ttl;
                bytes[9] = protocol;
                bytes[12..16].copy_from_slice(&addresses[0].to_be_bytes());
                bytes[16..20].copy_from_slice(&addresses[1].to_be_bytes());
                if header > 20 {
                    bytes[20] = option % 4;
                }
                bytes[header..header + 2].copy_from_slice(&ports[0].to_be_bytes());
                bytes[header + 2..header + 4].copy_from_slice(&ports[1].to_be_bytes());
                bytes[header + 13] = flags;
                // An order comparison can be decided by the first byte of a port; the oracle needs both.
                let half = (header + 1..header + 4).contains(&length) && (length - header) % 2 == 1;
                let length = if half { length - 1 } else { length };
                Packet { bytes, header, length }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_index_finds_the_first_rule(
        rules in prop_oneof![
            prop::collection::vec(rule(), 0..40),
            prop::collection::vec(rule(), 300..400),
        ],
        packets in prop::collection::vec(packet(), 100),
        like_program in any::<bool>(),
    ) {
        let texts: Vec<String> = rules.iter().map(Rule::text).collect();
        let compile = |engine| {
            FilterProgram::compile_rules_for(engine, &texts, 2, &Scope::builtin()).unwrap().0
        };
        let index = compile(Engine::Index);
        // The program of many rules is slow to compile.
        let program = (like_program && rules.len() <= 40).then(|| compile(Engine::Program));
        let mut ports = vec![0; packets.len()];
        let otherwise = Otherwise { dropped: 1000, no_sections: 1001 };
        index.classify_all(&packets, |packet| Some(packet.sections()), otherwise, &mut ports);
        for (packet, port) in packets.iter().zip(ports) {
            let wanted = rules.iter().find(|rule| rule.holds(packet)).map_or(2, |rule| rule.action);
            let wanted = if wanted == 2 { DROP } else { wanted.into() };
            let sections = packet.sections();
            prop_assert_eq!(index.classify(&sections), wanted, "{:?}", packet);
            prop_assert_eq!(port, if wanted == DROP { 1000 } else { wanted as u16 });
            if let Some(program) = &program {
                prop_assert_eq!(program.classify(&sections), wanted, "{:?}\n{}", packet, program);
            }
        }
        if let Some(program) = &program {
            prop_assert_eq!(index.to_string(), program.to_string());
            // If all packets are dropped, by a rule or because none matches, the index detects it where the program's
            // rules do not.
            let drops = index.classify(&IpSections::default()) == DROP;
            prop_assert!(!index.is_constant() || program.is_constant() || drops);
        }
    }
}

/// A rule is added or removed.
#[derive(Clone, Debug)]
enum Change {
    Insert(usize, Rule),
    Remove(usize),
    /// Everything is rebuilt from this point, which finishes after this many more changes.
    Renew(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<usize>(), rule()).prop_map(|(place, rule)| Change::Insert(place, rule)),
        4 => any::<usize>().prop_map(Change::Remove),
        1 => (0_usize..4).prop_map(Change::Renew),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn changed_rules_classify_as_if_compiled_together(
        mut rules in prop::collection::vec(rule(), 0..60),
        changes in prop::collection::vec(change(), 1..40),
        packets in prop::collection::vec(packet(), 40),
    ) {
        let compile = |rules: &[Rule]| {
            let texts: Vec<String> = rules.iter().map(Rule::text).collect();
            FilterProgram::compile_rules_for(Engine::Index, &texts, 2, &Scope::builtin()).unwrap().0
        };
        let mut program = compile(&rules);
        let mut renewing: Option<(FilterProgram, usize)> = None;
        for change in changes {
            let changed = match change {
                Change::Insert(place, rule) => {
                    let place = place % (rules.len() + 1);
                    let changed = program.with_rule(place, &rule.text(), &Scope::builtin()).unwrap();
                    rules.insert(place, rule);
                    Some(changed)
                }
                Change::Remove(place) if !rules.is_empty() => {
                    let place = place % rules.len();
                    rules.remove(place);
                    Some(program.without_rule(place))
                }
                Change::Remove(_) => None,
                Change::Renew(after) => {
                    renewing = Some((program.clone(), after));
                    None
                }
            };
            match changed {
                Some(Some(changed)) => program = changed,
                Some(None) => (program, renewing) = (compile(&rules), None),
                None => {}
            }
            renewing = match renewing {
                Some((before, 0)) => {
                    if let Some(moved) = program.moved_to(before.renewed(), &before) {
                        program = moved;
                    }
                    None
                }
                later => later.map(|(before, after)| (before, after - 1)),
            };
            let mut ports = vec![0; packets.len()];
            let otherwise = Otherwise { dropped: 1000, no_sections: 1001 };
            program.classify_all(&packets, |packet| Some(packet.sections()), otherwise, &mut ports);
            for (packet, port) in packets.iter().zip(ports) {
                let wanted = rules.iter().find(|rule| rule.holds(packet)).map_or(2, |rule| rule.action);
                let wanted = if wanted == 2 { DROP } else { wanted.into() };
                prop_assert_eq!(program.classify(&packet.sections()), wanted, "{:?}", packet);
                prop_assert_eq!(port, if wanted == DROP { 1000 } else { wanted as u16 });
            }
        }
    }
}

/// More fields than the index has, sets that are not ranges, and rules of many cubes.
#[test]
fn conditions_outside_the_index_are_checked() {
    let rule = |nth: usize| {
        let (high, low) = (nth / 256, nth % 256);
        match nth % 6 {
            0 => format!("1 ip[{}] == {low}", nth / 6 % 40),
            1 => format!("allow transp[{}:2] == {nth}", nth % 64 * 4),
            2 => format!("drop src port & 0x5555 == 1 and ip id {nth}"),
            3 => format!("1 ether src 2:0:0:0:{high:x}:{low:x} && not ip tos {}", nth % 7),
            4 => format!("allow (tcp ? port {nth} : udp ? ip ttl {low} : icmp) && dst 9.9.9.{low}"),
            _ => format!("drop port != {nth} && not (ip len > 40 or ip frag) && src net 9.0.0.0/8"),
        }
    };
    let rules: Vec<String> = (0..600).map(rule).collect();
    let compile = |engine, rules: &[String]| {
        FilterProgram::compile_rules_for(engine, rules, 2, &Scope::builtin()).unwrap().0
    };
    let index = compile(Engine::Index, &rules);
    // Each rule alone; one that drops must be distinguished from one that does not match.
    let single = |rule: &String| {
        let output = if rule.starts_with("drop") { DROP } else { rule.starts_with('1').into() };
        (compile(Engine::Program, &[rule.replacen("drop", "allow", 1)]), output)
    };
    let singles: Vec<(FilterProgram, usize)> = rules.iter().map(single).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut outputs = [0; 3];
    for _ in 0..300 {
        let mut bytes = [0; 90];
        random.fill(&mut bytes);
        bytes[14 + 9] = [1, 6, 17][random.usize(..3)];
        bytes[14 + 6..14 + 8].copy_from_slice(&[0x40, 0]);
        bytes[14 + 12..14 + 19].fill(9);
        let bytes = &bytes[..random.usize(20..=bytes.len())];
        let network = bytes.get(14..).unwrap_or_default();
        let transport = network.get(20..).unwrap_or_default();
        let sections = IpSections { mac: bytes, network, transport, ..IpSections::default() };
        let first = singles.iter().find(|(single, _)| single.classify(&sections) != DROP);
        let wanted = first.map_or(DROP, |(_, output)| *output);
        assert_eq!(index.classify(&sections), wanted);
        outputs[wanted.min(2)] += 1;
    }
    assert!(outputs.iter().all(|&packets| packets > 10), "{outputs:?}");
}

/// Conditions that hold for any bytes, but need some: what short packets do not satisfy must not hide the later rules.
#[test]
fn conditions_that_fail_only_for_short_packets_hide_no_rules() {
    let is = |value: u32, mask: u32| Expr::Is(Test::new(NETWORK + 12, value << 24, mask << 24));
    let neither = Expr::All(vec![is(0, 0xff), is(0x80, 0xff)]).negate_present();
    for all in [neither, Expr::Any(vec![is(0, 0x80), is(0x80, 0x80)])] {
        let rest = Expr::Is(Test::new(NETWORK + 4, 0, 0xff00));
        let rules = [(all, Jump::Output(0)), (rest, Jump::Output(1))];
        let index = LiveRules::new(rules.as_slice().into());
        assert!(index.constant().is_none() && index.reaches(1));
        let bytes = [7; 20];
        for length in 0..=bytes.len() {
            for bytes in [&bytes, &[0; 20]] {
                let sections = [&[][..], &bytes[..length], &[]];
                let wanted = match naive::classify(&rules, Layout::Ip, &sections) {
                    Jump::Output(output) => output as usize,
                    _ => DROP,
                };
                assert_eq!(index.classify(sections), wanted, "{rules:?} {length}");
            }
        }
    }
}

/// Rules of which each but the first few hundred is a cube of its own.
#[test]
fn the_index_has_more_than_one_page() {
    let address = |nth: u32| 0x0a00_0000 | nth.wrapping_mul(0x9e37_79b1) >> 8;
    let is = |offset, value, mask| Expr::Is(Test::new(offset, value, mask));
    let rule = |nth: u32| {
        let source = is(NETWORK + 12, address(nth), u32::MAX);
        let protocol = is(NETWORK + 8, (nth % 7) << 16, 0xff_0000);
        // Many of the last rules test only the destination.
        let destination = is(NETWORK + 16, address(nth), 0xffff_ff00);
        let conditions = if nth < 19_000 { vec![source, protocol] } else { vec![destination] };
        (Expr::All(conditions), Jump::Output(nth))
    };
    let rules: Vec<(Expr<Test>, Jump)> = (0..20_000).map(rule).collect();
    let index = LiveRules::new(rules.as_slice().into());
    assert!(index.bytes() < 16 << 20, "{}", index.bytes());
    let mut random = fastrand::Rng::with_seed(2);
    let mut found = 0;
    for _ in 0..80 {
        let mut bytes = [0; 20];
        bytes[9] = random.u8(..7);
        bytes[12..16].copy_from_slice(&address(random.u32(..19_500)).to_be_bytes());
        bytes[16..20].copy_from_slice(&address(random.u32(18_500..20_500)).to_be_bytes());
        let sections = [&[][..], &bytes, &[]];
        let wanted = match naive::classify(&rules, Layout::Ip, &sections) {
            Jump::Output(output) => output as usize,
            _ => DROP,
        };
        assert_eq!(index.classify(sections), wanted);
        found += usize::from(wanted != DROP);
    }
    assert!((20..75).contains(&found), "{found}");
}

#[test]
fn unreachable_outputs_are_detected() {
    let patterns =
        ["tcp", "udp dst port 53", "tcp port 80", "dst port >= 50", "udp", "all", "icmp"];
    let scope = Scope::builtin();
    for engine in [Engine::Program, Engine::Index] {
        let compiled = FilterProgram::compile_patterns_for(engine, &patterns, &scope).unwrap().0;
        let reached: Vec<usize> = (0..8).filter(|&output| compiled.reaches(output)).collect();
        assert_eq!(reached, [0, 1, 3, 4, 5], "{engine:?}");
    }
}
