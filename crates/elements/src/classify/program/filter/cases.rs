//! Rules that differ by [case](Case): a program for each.

use std::fmt;
use std::sync::Arc;

use super::super::next::Otherwise;
use super::case::{Case, Family, State};
use super::header6::Header6;
use super::{FilterProgram, IpSections};

/// A program for each case. Cases with the same rules share it.
#[derive(Clone, Debug)]
pub(super) struct Cases {
    programs: [Arc<FilterProgram>; Case::COUNT],
}

/// How many packets are put in order at a time.
const AT_ONCE: usize = 64;
/// Stands for the case of a packet that needs no program, or no longer.
const DONE: usize = usize::MAX;

impl Cases {
    /// Compiles the rules of each case.
    pub(super) fn new<R: PartialEq + Clone>(
        rules_of: impl Fn(Case) -> R,
        compile: impl Fn(R) -> FilterProgram,
    ) -> Self {
        let mut known: Vec<(R, Arc<FilterProgram>)> = Vec::new();
        let mut program = |number| {
            let rules = rules_of(Case::of(number));
            match known.iter().find(|(its, _)| *its == rules) {
                Some((_, program)) => program.clone(),
                None => {
                    let program = Arc::new(compile(rules.clone()));
                    known.push((rules, program.clone()));
                    program
                }
            }
        };
        Self { programs: std::array::from_fn(&mut program) }
    }

    /// The programs, by the number of their case.
    pub(super) fn programs(&self) -> impl Iterator<Item = &FilterProgram> {
        self.programs.iter().map(|program| &**program)
    }

    /// The output for a packet. Stands apart from the engines that most rules run on, which it would slow down.
    #[inline(never)]
    pub(super) fn classify(&self, packet: &IpSections<'_>) -> usize {
        let (family, number) = case_of(packet);
        let Some(program) = self.programs.get(number) else { return super::super::DROP };
        match family {
            Family::Four => program.classify(packet),
            Family::Six => {
                let header = Header6::of(packet.network);
                program.classify(&in_six(packet, &header))
            }
        }
    }

    /// Writes the port of each packet. Packets of one case are classified together. Stands apart as
    /// [`classify`](Self::classify) does.
    #[inline(never)]
    pub(super) fn classify_all<'a, P>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<IpSections<'a>>,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        for (packets, ports) in packets.chunks(AT_ONCE).zip(ports.chunks_mut(AT_ONCE)) {
            let mut all = [IpSections::default(); AT_ONCE];
            let mut cases = [DONE; AT_ONCE];
            let places = all.iter_mut().zip(&mut cases).zip(&mut *ports);
            for (packet, ((place, case), port)) in packets.iter().zip(places) {
                match sections(packet) {
                    Some(sections) => (*place, *case) = (sections, case_of(&sections).1),
                    None => *port = otherwise.no_sections,
                }
            }
            while let Some(&number) = cases.iter().find(|case| **case != DONE) {
                self.classify_case(number, &all, &mut cases, otherwise, ports);
            }
        }
    }

    /// Writes the port of each packet of a case, and marks these as done.
    fn classify_case(
        &self,
        number: usize,
        all: &[IpSections<'_>; AT_ONCE],
        cases: &mut [usize; AT_ONCE],
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        let mut headers = [Header6::NONE; AT_ONCE];
        let mut own = [IpSections::default(); AT_ONCE];
        let mut count = 0;
        let mut room = own.iter_mut().zip(&mut headers);
        for (packet, _) in all.iter().zip(&*cases).filter(|(_, case)| **case == number) {
            let Some((place, header)) = room.next() else { break };
            *place = match Case::is_six(number) {
                true => {
                    *header = Header6::of(packet.network);
                    in_six(packet, header)
                }
                false => *packet,
            };
            count += 1;
        }
        let mut found = [0; AT_ONCE];
        if let (Some(program), Some(own), Some(found)) =
            (self.programs.get(number), own.get(..count), found.get_mut(..count))
        {
            program.classify_all(own, |packet| Some(*packet), otherwise, found);
        }
        let of_case = cases.iter_mut().zip(ports).filter(|(case, _)| **case == number);
        for ((case, port), found) in of_case.zip(found) {
            (*case, *port) = (DONE, found);
        }
        // A chunk may be shorter than the cases are.
        cases.iter_mut().filter(|case| **case == number).for_each(|case| *case = DONE);
    }
}

/// The family of a packet, and the number of its case. What is not IPv6 is read as IPv4.
fn case_of(packet: &IpSections<'_>) -> (Family, usize) {
    let family = match packet.network.first() {
        Some(first) if first >> 4 == 6 => Family::Six,
        _ => Family::Four,
    };
    (family, Case::number(family, State::of(packet.state)))
}

/// The sections of an IPv6 packet, with its header as programs test it.
fn in_six<'a>(packet: &IpSections<'a>, header: &'a Header6) -> IpSections<'a> {
    IpSections { network: header.bytes(), transport: header.transport(packet.network), ..*packet }
}

impl fmt::Display for Cases {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, program) in self.programs.iter().enumerate() {
            let first = self.programs.iter().position(|other| Arc::ptr_eq(other, program));
            let cases = (0..)
                .map(Case::of)
                .zip(&self.programs)
                .filter(|(_, its)| Arc::ptr_eq(its, program));
            let names: Vec<String> = cases.map(|(case, _)| case.to_string()).collect();
            if first == Some(number) {
                write!(out, "{}:\n{program}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use millrace_core::args::Scope;
    use proptest::prelude::*;

    use super::super::super::{DROP, Engine};
    use super::*;
    use crate::test_packets::{ip, ip6};

    fn filter(engine: Engine, rules: &[&str]) -> FilterProgram {
        let scope = Scope::builtin();
        match FilterProgram::compile_rules_for(engine, rules, 4, &scope) {
            Ok((program, _)) => program,
            Err(findings) => panic!("{rules:?}: {findings:?}"),
        }
    }

    /// The network header and what follows it, with the transport header of IPv4.
    fn sections(packet: &[u8], state: State) -> IpSections<'_> {
        let transport = packet.get(20..).unwrap_or_default();
        IpSections { network: packet, transport, state: state as u8, ..IpSections::default() }
    }

    /// Whether a pattern accepts a packet, with both engines and alone as in a batch.
    fn accepts(pattern: &str, packet: &[u8], state: State) -> bool {
        // The last rule is never reached: it makes the others understand IPv6.
        let rules = [&*format!("allow {pattern}"), "drop all", "2 ip6"];
        let found = [Engine::Program, Engine::Index].map(|engine| {
            let program = filter(engine, &rules);
            let one = program.classify(&sections(packet, state));
            let mut ports = [9; 100];
            let otherwise = Otherwise { dropped: 77, no_sections: 78 };
            let packets = [packet; 100];
            program.classify_all(
                &packets,
                |packet| Some(sections(packet, state)),
                otherwise,
                &mut ports,
            );
            let expected = if one == DROP { 77 } else { one as u16 };
            assert_eq!(ports, [expected; 100], "{pattern}");
            one == 0
        });
        assert_eq!(found[0], found[1], "{pattern}");
        found[0]
    }

    fn udp6() -> ip6::Datagram {
        ip6::Datagram::default()
    }

    fn six(next_header: u8, payload: &[u8]) -> Vec<u8> {
        ip6::Datagram { next_header, payload: payload.to_vec(), ..udp6() }.bytes()
    }

    /// The default datagram behind extension headers: hop-by-hop options, routing, and the first fragment.
    fn extended(more: u8, offset: u8) -> Vec<u8> {
        let hop = [43, 0, 1, 4, 0, 0, 0, 0];
        let routing = [44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let fragment = [17, 0, 0, offset << 3 | more, 0, 0, 0, 9];
        six(0, &[&hop[..], &routing, &fragment, &udp6().payload].concat())
    }

    #[test]
    fn words_match_the_packets_that_the_manual_describes() {
        let udp = udp6().bytes();
        let four = ip::Datagram::default().bytes();
        let tcp4 = ip::Datagram::tcp(b"data").bytes();
        let echo = six(58, &[128, 0, 0, 0, 0, 0, 0, 0]);
        let other_host = ip6::Datagram { source: Ipv6Addr::LOCALHOST, ..udp6() }.bytes();
        let marked = ip6::Datagram { traffic_class: 0xb9, hop_limit: 3, ..udp6() }.bytes();
        for (pattern, yes, no) in [
            ("ip6", &udp, &four),
            ("ip", &four, &udp),
            ("not ip6", &four, &udp),
            ("udp", &udp, &tcp4),
            ("udp", &four, &tcp4),
            ("udp", &extended(0, 0), &echo),
            ("ip6 proto udp", &udp, &four),
            ("ip proto udp", &four, &udp),
            ("dst port 5678", &udp, &echo),
            ("dst port 5678", &extended(1, 0), &extended(0, 5)),
            ("udp", &extended(0, 5), &echo),
            ("src port != 53", &udp, &echo),
            ("src 2001:db8::1", &udp, &other_host),
            ("src ip6 host 2001:db8::1", &udp, &four),
            ("src ip6 net 2001:db8::/32", &udp, &other_host),
            ("dst net 2001:db8:1:2::/64", &udp, &four),
            ("net 2001:db8::/126", &udp, &other_host.iter().map(|byte| byte & 0x0f).collect()),
            ("src host != ::1", &udp, &other_host),
            ("src host != ::1", &udp, &four),
            ("host 1.0.0.1", &four, &udp),
            ("src host != 9.9.9.9", &four, &udp),
            ("src net ::/0", &udp, &four),
            ("icmp6", &echo, &udp),
            ("icmp6 type echo", &echo, &udp),
            ("icmp6 type 128", &echo, &four),
            ("icmp6 type != echo", &six(58, &[135; 8]), &echo),
            ("icmp6 echo", &echo, &udp),
            ("icmp6 type redirect or echo", &echo, &six(1, &[5; 8])),
            ("icmp6 type redirect or 128", &echo, &six(58, &[5; 8])),
            ("ip6 ext auth or routing", &extended(0, 0), &udp),
            ("ip6 hlim < 4", &marked, &udp),
            ("ttl 3", &marked, &udp),
            ("ip6 tos 0xb9", &marked, &udp),
            ("dscp 46", &marked, &udp),
            ("ip6 frag", &extended(1, 0), &extended(0, 0)),
            ("frag", &extended(0, 5), &udp),
            ("ip6 unfrag", &udp, &extended(0, 5)),
            ("ip6 ext routing", &extended(0, 0), &udp),
            ("ip6 ext frag and not ip6 ext dest", &extended(0, 0), &udp),
            ("ip6 ext 0", &extended(0, 0), &udp),
            ("ip6[7] 3", &marked, &udp),
            ("ip6[6] 0", &extended(0, 0), &udp),
            ("ip6 vers 6", &udp, &four),
            ("ip6 proto 58 or 17", &udp, &four),
            ("ip6 hlim 255 or 64", &udp, &four),
            (
                "ip ttl 255 or 250",
                &ip::Datagram { ttl: 250, ..ip::Datagram::default() }.bytes(),
                &udp,
            ),
            (
                "ip ttl 255 or 64",
                &ip::Datagram { ttl: 64, ..ip::Datagram::default() }.bytes(),
                &udp,
            ),
            ("icmp6 or tcp", &echo, &ip::Datagram::of(58).bytes()),
            ("icmp6 type 0", &six(58, &[0; 8]), &ip::Datagram::of(58).bytes()),
            ("icmp", &ip::Datagram::icmp(8, 0, [0; 4], b"").bytes(), &six(1, &[8; 8])),
            ("len 48", &four, &ip6::Datagram { flow_label: 48, ..udp6() }.bytes()),
            ("hl 5", &four, &ip6::Datagram { traffic_class: 0x50, ..udp6() }.bytes()),
            ("vers 4", &four, &udp),
        ] {
            assert!(accepts(pattern, yes, State::New), "{pattern}");
            assert!(!accepts(pattern, no, State::New), "not {pattern}");
        }
    }

    #[test]
    fn states_are_those_of_the_tracker() {
        for packet in [udp6().bytes(), ip::Datagram::default().bytes()] {
            for state in State::ALL {
                for word in State::ALL {
                    assert_eq!(accepts(word.word(), &packet, state), state == word);
                    assert_eq!(
                        accepts(&format!("not {}", word.word()), &packet, state),
                        state != word
                    );
                }
                let answers = [State::Established, State::Related].contains(&state);
                assert_eq!(accepts("established or related", &packet, state), answers);
                assert_eq!(accepts("new and udp", &packet, state), state == State::New);
                assert_eq!(accepts("new ? tcp : udp", &packet, state), state != State::New);
            }
        }
    }

    #[test]
    fn words_for_icmpv6_alone_tell_the_versions_apart() {
        let program = filter(Engine::Fitting, &["allow icmp6 type echo", "deny all"]);
        let echo = [128, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(program.classify(&sections(&six(58, &echo), State::Untracked)), 0);
        let four = ip::Datagram { payload: echo.to_vec(), ..ip::Datagram::of(58) }.bytes();
        assert_eq!(program.classify(&sections(&four, State::Untracked)), DROP);
    }

    #[test]
    fn mistakes_are_told() {
        for (rule, expected) in [
            ("allow ip6 len 60", "‘ip len’: not in an IPv6 header"),
            ("allow ip host 2001:db8::1", "IPv6 address"),
            ("allow ip6 ext", "‘ip6 ext’: value missing"),
            ("allow ip6 ext 99", "no extension header, expected hop, routing"),
            ("allow ip6[40] 1", "POS in ‘[POS:LEN]’ out of range, bound 39"),
            ("allow icmp6 type ehco", "value missing"),
            ("allow establised", "did you mean ‘established’?"),
        ] {
            let findings = FilterProgram::compile_rules(&[rule], 1, &Scope::builtin()).unwrap_err();
            let text = format!("{findings:?}");
            assert!(text.contains(expected), "{rule}: {text}");
        }
    }

    #[test]
    fn the_program_tells_its_cases() {
        let program =
            filter(Engine::Fitting, &["allow established", "allow ip6 && new", "drop all"]);
        let text = program.to_string();
        assert!(text.contains("ip established, ip6 new, ip6 established:\nall->[0]"), "{text}");
        assert!(text.starts_with("ip untracked, ip new"), "{text}");
        assert!(program.reaches(0) && !program.reaches(1));
    }

    /// Rules with words of all kinds, of which each packet satisfies some.
    const RULES: &[&str] = &[
        "udp",
        "tcp",
        "ip6",
        "ip",
        "new",
        "established",
        "src net 2001:db8::/32",
        "dst port 5678",
        "src port > 1000",
        "host 1.0.0.1",
        "frag",
        "ip6 ext hop",
        "ttl 64",
        "icmp6",
        "invalid",
    ];

    proptest! {
        /// Both engines agree, alone and in mixed batches, also for packets cut anywhere.
        #[test]
        fn engines_agree_on_mixed_batches(
            rules in proptest::collection::vec((0..4usize, 0..RULES.len(), 0..RULES.len(), any::<bool>()), 1..40),
            packets in proptest::collection::vec((0..5usize, 0..5usize, 0..100usize), 1..150),
        ) {
            let texts: Vec<String> = rules
                .iter()
                .map(|&(output, one, two, joins)| {
                    let join = if joins { "and" } else { "or not" };
                    format!("{output} {} {join} {}", RULES[one], RULES[two])
                })
                .chain(["1 ip6 and new".to_owned()])
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let programs = [Engine::Program, Engine::Index].map(|engine| filter(engine, &texts));
            let kinds = [
                udp6().bytes(),
                extended(1, 0),
                extended(0, 3),
                ip::Datagram::default().bytes(),
                ip::Datagram::tcp(b"x").bytes(),
            ];
            let packets: Vec<(Vec<u8>, State)> = packets
                .iter()
                .map(|&(kind, state, cut)| {
                    let bytes = &kinds[kind];
                    (bytes[..bytes.len().min(cut.max(1))].to_vec(), State::ALL[state])
                })
                .collect();
            let otherwise = Otherwise { dropped: 77, no_sections: 78 };
            let found = programs.map(|program| {
                let mut ports = vec![0; packets.len()];
                let parts = |packet: &'_ (Vec<u8>, State)| packet.1;
                program.classify_all(&packets, |packet| Some(sections(&packet.0, parts(packet))), otherwise, &mut ports);
                for (packet, port) in packets.iter().zip(&ports) {
                    let one = program.classify(&sections(&packet.0, packet.1));
                    assert_eq!(*port, if one == DROP { 77 } else { one as u16 });
                }
                ports
            });
            prop_assert_eq!(&found[0], &found[1]);
        }
    }
}
