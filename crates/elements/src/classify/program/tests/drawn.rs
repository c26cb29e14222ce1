//! Random rules of any form: many at once, in every form that runs, compared with each rule by itself.

use std::net::Ipv4Addr;

use fastrand::Rng;
use millrace_core::args::Scope;

use super::super::{DROP, Engine, FilterProgram, IpSections, Otherwise};

const OTHERWISE: Otherwise = Otherwise { dropped: 1000, no_sections: 1001 };

/// A random element.
fn one<T: Copy>(random: &mut Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

/// Few addresses, so that rules and packets match one another.
fn address(random: &mut Rng) -> u32 {
    if random.u8(..4) == 0 {
        random.u32(..)
    } else {
        0x0a00_0000 | random.u32(..4) << 22 | random.u32(..4)
    }
}

fn port(random: &mut Rng) -> u16 {
    if random.bool() { one(random, &[0, 22, 80, 443, 1023, 1024, 65535]) } else { random.u16(..) }
}

fn condition(random: &mut Rng) -> String {
    let end = one(random, &["src ", "dst ", "", "src and dst "]);
    let protocol = one(random, &["tcp ", "udp ", ""]);
    let [a, b, c] = [(); 3].map(|()| port(random));
    match random.u8(..15) {
        0..=3 => {
            let length = one(random, &[1, 8, 15, 16, 23, 24, 30, 32]);
            let network = address(random) & u32::MAX << (32 - length);
            format!("{end}net {}/{length}", Ipv4Addr::from_bits(network))
        }
        4 => {
            one(random, &["tcp", "udp", "icmp", "ip proto 47", "ip proto > 6", "tcpudp"]).to_owned()
        }
        5 => format!("{protocol}{end}port {a}"),
        6 => format!("{protocol}{end}port {a} or {b} or {c}"),
        7 => format!("({protocol}{end}port >= {} and {end}port <= {})", a.min(b), a.max(b)),
        8 => format!("{protocol}{end}port != {a}"),
        9 => format!("tcp opt {}", one(random, &["syn", "ack", "fin", "rst"])),
        10 => format!(
            "ip {} {}",
            one(random, &["ttl <", "ttl >=", "tos", "dscp <", "hl >"]),
            random.u8(1..15)
        ),
        11 => one(random, &["ip frag", "ip unfrag", "ip ect", "true", "false"]).to_owned(),
        12 => format!("ip len > {}", random.u16(..200)),
        13 => format!("icmp type {}", random.u8(..10)),
        _ => {
            let mask = random.u8(1..);
            format!(
                "{}[{}] & {mask} == {}",
                one(random, &["ip", "transp"]),
                random.u8(..24),
                random.u8(..) & mask
            )
        }
    }
}

fn expression(random: &mut Rng, depth: u8) -> String {
    let parts: Vec<String> = (0..random.u8(1..4))
        .map(|_| match random.u8(..8) {
            0 if depth > 0 => format!("not ({})", expression(random, depth - 1)),
            1 if depth > 0 => {
                format!("({} or {})", expression(random, depth - 1), expression(random, depth - 1))
            }
            2 if depth > 0 => format!(
                "({} ? {} : {})",
                condition(random),
                expression(random, depth - 1),
                expression(random, depth - 1)
            ),
            _ => condition(random),
        })
        .collect();
    parts.join(" and ")
}

/// An IP packet, which may be truncated anywhere.
fn packet(random: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..64).map(|_| random.u8(..)).collect();
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&random.u16(20..220).to_be_bytes());
    bytes[6..8].copy_from_slice(&one(random, &[0_u16, 0, 0, 0x4000, 0x2000, 0xb9]).to_be_bytes());
    bytes[8] = random.u8(..20);
    bytes[9] = one(random, &[1, 6, 6, 17, 17, 47]);
    bytes[12..16].copy_from_slice(&address(random).to_be_bytes());
    bytes[16..20].copy_from_slice(&address(random).to_be_bytes());
    bytes[20..22].copy_from_slice(&port(random).to_be_bytes());
    bytes[22..24].copy_from_slice(&port(random).to_be_bytes());
    if random.u8(..4) == 0 {
        bytes.truncate(random.usize(..64));
    }
    bytes
}

fn sections(packet: &[u8]) -> IpSections<'_> {
    let transport = packet.get(20..).unwrap_or_default();
    IpSections { network: packet, transport, ..IpSections::default() }
}

#[test]
fn rules_of_any_form_classify_as_each_rule_alone() {
    let scope = Scope::builtin();
    let mut outputs = [0; 3];
    let mut engines = [0; 2];
    for seed in 0..24 {
        let random = &mut Rng::with_seed(seed);
        let count = [1, 2, 3, 6, 10, 31, 60, 100][seed as usize % 8];
        let expressions: Vec<String> = (0..count).map(|_| expression(random, 2)).collect();
        let actions: Vec<&str> =
            expressions.iter().map(|_| one(random, &["allow", "1", "deny"])).collect();
        let rules: Vec<String> =
            actions.iter().zip(&expressions).map(|(action, it)| format!("{action} {it}")).collect();
        let compile = |engine, rules: &[String]| {
            FilterProgram::compile_rules_for(engine, rules, 2, &scope).unwrap().0
        };
        let singles: Vec<FilterProgram> = expressions
            .iter()
            .map(|it| compile(Engine::Program, &[format!("allow {it}")]))
            .collect();
        let fitting = compile(Engine::Fitting, &rules);
        engines[usize::from(fitting.engine() == Engine::Index)] += 1;
        let packets: Vec<Vec<u8>> = (0..75).map(|_| packet(random)).collect();
        for program in [&fitting, &compile(Engine::Index, &rules)] {
            let mut ports = vec![0; packets.len()];
            program.classify_all(&packets, |packet| Some(sections(packet)), OTHERWISE, &mut ports);
            for (packet, port) in packets.iter().zip(ports) {
                let first =
                    singles.iter().position(|single| single.classify(&sections(packet)) == 0);
                let wanted = match first.map(|rule| actions[rule]) {
                    Some("allow") => 0,
                    Some("1") => 1,
                    _ => DROP,
                };
                assert_eq!(program.classify(&sections(packet)), wanted, "{rules:#?} {packet:02x?}");
                assert_eq!(port, if wanted == DROP { 1000 } else { wanted as u16 });
                outputs[wanted.min(2)] += 1;
            }
        }
    }
    assert!(outputs.iter().all(|&packets| packets > 200), "{outputs:?}");
    assert!(engines.iter().all(|&programs| programs > 2), "{engines:?}");
}

/// Packets whose header position is not set, among others and at the end of a batch.
#[test]
fn packets_without_sections_have_their_own_port() {
    let rules = [
        "allow tcp dst port 80 and src net 10.0.0.0/8",
        "1 udp",
        "deny icmp and dst net 9.0.0.0/8",
    ];
    let scope = Scope::builtin();
    for engine in [Engine::Program, Engine::Index] {
        let program = FilterProgram::compile_rules_for(engine, &rules, 2, &scope).unwrap().0;
        let mut udp = [0x45; 40];
        udp[9] = 17;
        for count in [1, 15, 16, 17, 40] {
            let packets: Vec<Option<&[u8]>> =
                (0..count).map(|nth| (nth % 3 != 0).then_some(&udp[..])).collect();
            let mut ports = vec![0; count];
            program.classify_all(&packets, |packet| packet.map(sections), OTHERWISE, &mut ports);
            let wanted: Vec<u16> =
                (0..count).map(|nth| if nth % 3 != 0 { 1 } else { 1001 }).collect();
            assert_eq!(ports, wanted, "{engine:?}");
        }
    }
}
