use millrace_core::args::Scope;
use proptest::prelude::*;

use super::super::{DROP, Engine, FilterProgram, IpSections};

/// An IP packet as its bytes.
#[derive(Clone, Debug)]
struct Packet {
    mac: [u8; 14],
    ip: [u8; 20],
    transport: Vec<u8>,
}

impl Packet {
    fn new(protocol: u8, transport: &[u8]) -> Self {
        let mut ip = [0; 20];
        ip[0] = 0x45;
        ip[8] = 64;
        ip[9] = protocol;
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 192, 168, 5, 9]);
        let mac = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
        Self { mac, ip, transport: transport.to_vec() }
    }

    fn tcp(source: u16, destination: u16, flags: u8) -> Self {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&source.to_be_bytes());
        header[2..4].copy_from_slice(&destination.to_be_bytes());
        header[13] = flags;
        header[14..16].copy_from_slice(&1000_u16.to_be_bytes());
        Self::new(6, &header)
    }

    fn udp(source: u16, destination: u16) -> Self {
        let mut packet = Self::tcp(source, destination, 0);
        packet.ip[9] = 17;
        packet.transport.truncate(8);
        packet
    }

    fn icmp(kind: u8) -> Self {
        Self::new(1, &[kind, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Replaces bytes in the IP header.
    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.ip[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn classify(&self, program: &FilterProgram) -> usize {
        self.classify_cut(program, usize::MAX)
    }

    /// Classifies the first bytes of the packet, counted from the network header.
    fn classify_cut(&self, program: &FilterProgram, length: usize) -> usize {
        let mut network = [&self.ip[..], &self.transport].concat();
        network.truncate(length);
        let transport = network.get(20..).unwrap_or_default();
        let sections =
            IpSections { mac: &self.mac, network: &network, transport, ..IpSections::default() };
        program.classify(&sections)
    }
}

fn filter(rules: &[&str]) -> FilterProgram {
    match FilterProgram::compile_rules(rules, 4, &Scope::builtin()) {
        Ok((program, _)) => program,
        Err(findings) => panic!("{rules:?}: {findings:?}"),
    }
}

/// Whether a pattern accepts a packet.
fn accepts(pattern: &str, packet: &Packet) -> bool {
    packet.classify(&filter(&[&format!("allow {pattern}"), "drop all"])) == 0
}

/// Every word of the language, with a packet that it accepts and one that it rejects.
#[test]
fn words_match_the_packets_that_the_manual_describes() {
    let tcp = || Packet::tcp(1234, 80, 0x12);
    let udp = || Packet::udp(53, 5353);
    let icmp = || Packet::icmp(8);
    let fragment = || tcp().with(6, &[0, 10]);
    let first_fragment = || tcp().with(6, &[0x20, 0]);
    for (pattern, yes, no) in [
        ("tcp", tcp(), udp()),
        ("ip proto tcp", tcp(), udp()),
        ("ip proto 17", udp(), tcp()),
        ("proto != 17", tcp(), udp()),
        ("proto > 6", udp(), tcp()),
        ("ip proto & 0x10 = 16", udp(), tcp()),
        ("tcpudp", udp(), icmp()),
        ("ip proto tcpudp", tcp(), icmp()),
        ("icmp", icmp(), tcp()),
        ("gre", tcp().with(9, &[47]), tcp()),
        ("src host 10.0.0.1", tcp(), tcp().with(12, &[11])),
        ("dst host 10.0.0.1", tcp().with(16, &[10, 0, 0, 1]), tcp()),
        ("host 10.0.0.1", tcp(), tcp().with(12, &[11])),
        ("ip host 10.0.0.1", tcp().with(12, &[9]).with(16, &[10, 0, 0, 1]), tcp().with(12, &[9])),
        ("src and dst host 10.0.0.1", tcp().with(16, &[10, 0, 0, 1]), tcp()),
        ("src or dst host 10.0.0.1", tcp(), tcp().with(15, &[2])),
        ("src && dest 10.0.0.1", tcp().with(16, &[10, 0, 0, 1]), tcp()),
        ("src host != 10.0.0.1", tcp().with(15, &[2]), tcp()),
        ("host != 10.0.0.1", tcp().with(15, &[2]), tcp()),
        ("src host & 255.0.0.255 = 10.9.9.1", tcp(), tcp().with(15, &[2])),
        ("src host & 0xff000000 = 10.9.9.9", tcp(), tcp().with(12, &[9])),
        ("src net 10.0.0.0/8", tcp(), tcp().with(12, &[11])),
        ("src net 10/8", tcp(), tcp().with(12, &[11])),
        ("10.0.0.0 mask 255.0.0.0", tcp(), tcp().with(12, &[11])),
        ("dst 192.168.0.0/255.255.0.0", tcp(), tcp().with(17, &[1])),
        ("src net != 10.0.0.0/8", tcp().with(12, &[11]), tcp()),
        ("tcp src 10.0.0.1", tcp(), udp()),
        ("src port 1234", tcp(), udp()),
        ("dst tcp port 80", tcp(), Packet::udp(1234, 80)),
        ("port www", Packet::udp(80, 1), udp()),
        ("udp port 53", udp(), Packet::tcp(53, 53, 0)),
        ("src port != 53", tcp(), udp()),
        ("src port != 53", tcp(), icmp()),
        ("src and dst port 7", Packet::udp(7, 7), Packet::udp(7, 8)),
        ("src port > 1000", tcp(), udp()),
        ("dst port <= 80", tcp(), udp()),
        ("dst port >= 81", udp(), tcp()),
        ("src port < 54", udp(), tcp()),
        ("port & 0xff00 = 0x400", Packet::tcp(1024, 1, 0), udp()),
        ("src port 53 or 54", Packet::udp(54, 1), tcp()),
        ("dccp port 5", Packet { ip: tcp().with(9, &[33]).ip, ..Packet::udp(5, 6) }, udp()),
        ("www", tcp(), udp()),
        ("tcp opt syn", tcp(), Packet::tcp(1, 2, 0x10)),
        ("syn", tcp(), udp()),
        ("syn ack", tcp(), Packet::tcp(1, 2, 2)),
        ("tcp opt 18", tcp(), Packet::tcp(1, 2, 2)),
        ("fin or psh or rst or urg", Packet::tcp(1, 2, 8), tcp()),
        ("tcp win 1000", tcp(), udp()),
        ("tcp win < 1001", tcp(), fragment()),
        ("icmp type echo", icmp(), Packet::icmp(0)),
        ("icmp type 8", icmp(), tcp()),
        ("icmp type != echo", Packet::icmp(0), tcp()),
        ("echo-reply", Packet::icmp(0), icmp()),
        ("ip vers 4", tcp(), tcp().with(0, &[0x65])),
        ("ip hl 5", tcp(), tcp().with(0, &[0x46])),
        ("ip tos 3", tcp().with(1, &[3]), tcp()),
        ("ip dscp 46", tcp().with(1, &[46 << 2]), tcp()),
        ("ip ect", tcp().with(1, &[1]), tcp()),
        ("ip ect 2", tcp().with(1, &[2]), tcp().with(1, &[1])),
        ("ip ce", tcp().with(1, &[3]), tcp().with(1, &[2])),
        ("ip ttl 64", tcp(), tcp().with(8, &[1])),
        ("ip ttl < 2", tcp().with(8, &[1]), tcp()),
        ("ip id 300", tcp().with(4, &[1, 44]), tcp()),
        ("ip len > 1500", tcp().with(2, &[6, 0]), tcp()),
        ("ip frag", fragment(), tcp()),
        ("ip frag", first_fragment(), tcp()),
        ("ip unfrag", tcp(), fragment()),
        ("unfrag", tcp().with(6, &[0x40, 0]), first_fragment()),
        ("dst port 80", first_fragment(), fragment()),
        ("ip[9] 6", tcp(), udp()),
        ("ip[12:4] = 0x0a000001", tcp(), tcp().with(12, &[9])),
        ("ip[16:2] > 0xc0a7", tcp(), tcp().with(16, &[1])),
        ("ip[8] & 0xf0 != 0", tcp(), tcp().with(8, &[7])),
        ("tcp[13] & 2 != 0", tcp(), Packet::tcp(1, 2, 0x10)),
        ("tcp[2,3] 80", tcp(), Packet::udp(1, 80)),
        ("transp[0:2] 53", udp(), tcp()),
        ("udp[0:4] 0x003514e9", udp(), tcp()),
        ("ether host 2:0:0:0:0:1", tcp(), Packet { mac: [0; 14], ..tcp() }),
        ("ether src 02-00-00-00-00-01", tcp(), Packet { mac: [0; 14], ..tcp() }),
        ("dst 2:0:0:0:0:9", tcp(), Packet { mac: [2; 14], ..tcp() }),
        ("ether src & ff:0:0:0:0:0 = 2:1:1:1:1:1", tcp(), Packet { mac: [0; 14], ..tcp() }),
        ("ether dst != 2:0:0:0:0:9", Packet { mac: [0; 14], ..tcp() }, tcp()),
        ("ether src 3:0:0:0:0:1 or 2:0:0:0:0:1", tcp(), Packet { mac: [3; 14], ..tcp() }),
        ("not udp", tcp(), udp()),
        ("!(tcp or icmp)", udp(), tcp()),
        ("src not host 10.0.0.1", tcp().with(12, &[9]), tcp()),
        ("! ! tcp", tcp(), udp()),
        ("tcp and src 10.0.0.1", tcp(), udp()),
        ("tcp && dst port 80 || udp", udp(), icmp()),
        ("tcp ? dst port 80 : udp", udp(), Packet::tcp(1, 81, 0)),
        ("icmp ? false : tcp ? syn : true", udp(), Packet::tcp(1, 2, 0)),
        ("icmp ? true ? false : true : tcp", tcp(), icmp()),
        ("true and not false", tcp(), tcp().with(0, &[0])),
    ] {
        assert!(accepts(pattern, &yes), "{pattern} should accept {yes:?}");
        let all = pattern == "true and not false";
        assert_eq!(accepts(pattern, &no), all, "{pattern} should not accept {no:?}");
    }
}

#[test]
fn the_first_rule_decides() {
    let program = filter(&["2 tcp dst port 80", "deny tcp", "1 udp", "allow icmp type echo"]);
    assert_eq!(Packet::tcp(1, 80, 0).classify(&program), 2);
    assert_eq!(Packet::tcp(1, 81, 0).classify(&program), DROP);
    assert_eq!(Packet::udp(1, 81).classify(&program), 1);
    assert_eq!(Packet::icmp(8).classify(&program), 0);
    assert_eq!(Packet::icmp(0).classify(&program), DROP);
    assert_eq!([0, 1, 2, 3].map(|output| program.reaches(output)), [true, true, true, false]);
    for all in ["3", "3 -", "3 all", "3 any"] {
        assert_eq!(Packet::icmp(0).classify(&filter(&[all])), 3);
    }
}

#[test]
fn conditions_on_missing_bytes_do_not_hold() {
    let packet = Packet::tcp(1234, 80, 2);
    for (pattern, length, accepted) in [
        ("src 10.0.0.1", 16, true),
        ("src 10.0.0.1", 15, false),
        ("not src 10.0.0.1", 15, true),
        ("src host != 9.0.0.1", 15, false),
        ("src port 1234", 22, true),
        ("src port 1234", 21, false),
        // The first byte may or may not decide.
        ("src port > 1000", 21, true),
        ("src port > 1200", 21, false),
        ("src port < 2000", 21, false),
        ("src port != 5", 21, false),
        ("not src port 5", 21, true),
        ("dst port 80", 22, false),
        ("port 1234", 22, true),
        ("src or dst port >= 1024", 22, true),
        ("syn and not ack", 33, false),
        ("not ack", 33, true),
        ("!ack and syn", 33, false),
        ("ip frag", 6, false),
        ("ip unfrag", 6, false),
        ("not ip unfrag", 6, true),
        ("ip[30:2] 0", 30, false),
        ("true", 0, true),
    ] {
        let program = filter(&[&format!("allow {pattern}")]);
        let found = packet.classify_cut(&program, length) == 0;
        assert_eq!(found, accepted, "{pattern} of {length} bytes:\n{program}");
    }
}

#[test]
fn program_text_is_that_of_click() {
    for (rules, text) in [
        (
            &["1 tcp dst port 22 || 23 && syn", "allow 172.16.0.0/12"][..],
            " 0 264/00060000%00ff0000  yes->step 1  no->step 5
 1 260/00000000%00001fff  yes->step 2  no->step 5
 2 512/00000016%0000ffff  yes->[1]  no->step 3
 3 512/00000017%0000ffff  yes->step 4  no->step 5
 4 524/00020000%00020000  yes->[1]  no->step 5
 5 268/ac100000%fff00000  yes->[0]  no->step 6
 6 272/ac100000%fff00000  yes->[0]  no->[X]
safe length 526
alignment offset 0
",
        ),
        (
            &["allow udp dst port 1024 or 5000 or 53 or 123 or 67 or 514 or 4789"],
            " 0 264/00110000%00ff0000  yes->step 1  no->[X]
 1 260/00000000%00001fff  yes->step 2  no->[X]
 2 512/00000400%0000ffff  yes->[0]  no->step 3
 3 512/00000202%0000ffff  yes->[0]  no->step 4
 4 512/00000035%0000ffff  yes->[0]  no->step 5
 5 512/00000043%0000ffff  yes->[0]  no->step 6
 6 512/0000007b%0000ffff  yes->[0]  no->step 7
 7 512/00001388%0000ffff  yes->[0]  no->step 8
 8 512/000012b5%0000ffff  yes->[0]  no->[X]
safe length 516
alignment offset 0
",
        ),
        (
            &["drop src 1.2.3.4", "0 ip ttl > 5 && ip ttl < 9"],
            " 0 268/01020304%ffffffff  yes->[X]  no->step 1
 1 264/00000000%f8000000  yes->step 2  no->step 3  short->yes
 2 264/06000000%f6000000  yes->step 4  no->[X]
 3 264/00000000%f0000000  yes->step 4  no->[X]
 4 264/08000000%08000000  yes->step 5  no->[0]  short->yes
 5 264/00000000%07000000  yes->[0]  no->[X]
safe length 272
alignment offset 0
",
        ),
    ] {
        assert_eq!(filter(rules).to_string(), text, "{rules:?}");
    }
}

#[test]
fn errors_have_a_message_and_a_position() {
    for (rule, place, message) in [
        ("", "", "empty pattern"),
        ("permit tcp", "permit", "unknown slot ID ‘permit’"),
        ("4 tcp", "4", "slot ‘4’ out of range"),
        ("-1 tcp", "-1", "slot ‘-1’ out of range"),
        ("allow tcp )", ")", "garbage after expression at ‘)’"),
        ("allow (tcp", "", "missing ‘)’"),
        ("allow ()", ")", "missing expression after ‘(’"),
        ("allow tcp and", "", "missing expression"),
        ("allow or tcp", "or", "missing expression"),
        ("allow !", "", "missing expression after ‘!’"),
        ("allow tcp ? udp", "", "missing ‘:’ in ternary expression"),
        ("allow frobnicate", "frobnicate", "empty term near ‘frobnicate’"),
        ("allow tcp , udp", ",", "empty term near ‘,’"),
        ("allow port", "port", "‘src or dst port’: value missing"),
        ("allow port > www2", "www2", "dangling operator near ‘www2’"),
        ("allow port 65536", "port 65536", "‘src or dst port’: out of range, bound 65535"),
        ("allow port 4294967296", "4294967296", "out of range, bound 4294967295"),
        ("allow port & 0x10000 = 1", "port & 0x10000 = 1", "mask out of range, bound 0xFFFF"),
        ("allow port & 0 = 1", "0", "zero mask"),
        ("allow port & x", "x", "expected a mask after ‘&’"),
        ("allow port & 1.2.3.4 5", "port & 1.2.3.4 5", "‘src or dst port’: bad mask"),
        ("allow icmp port 5", "icmp port 5", "‘port’: bad protocol ‘icmp’"),
        ("allow udp opt syn", "syn", "‘udp tcp opt syn’ is meaningless; try ‘tcp opt syn’"),
        ("allow tcp opt 300", "tcp opt 300", "‘tcp opt’: value out of range, bound 255"),
        ("allow tcp opt != syn", "tcp opt != syn", "‘tcp opt’: operator or mask not supported"),
        ("allow 80", "80", "specify header field or ‘port’"),
        ("allow echo", "echo", "‘echo’ is ambiguous; try ‘port echo’, ‘icmp type echo’"),
        ("allow host", "host", "‘src or dst ip host’: address missing"),
        ("allow host > 1.2.3.4", "host > 1.2.3.4", "‘src or dst ip host’: operator not supported"),
        ("allow src net 1.2.3.4", "src net 1.2.3.4", "‘src ip net’: address missing"),
        ("allow 10.1.2/16", "10.1.2/16", ""),
        ("allow 10.1/24", "10.1/24", "empty term near ‘10.1/24’"),
        ("allow ether host 1.2.3.4", "1.2.3.4", "‘1.2.3.4’ is no Ethernet address"),
        ("allow ether host", "ether host", "‘src or dst ether host’: address missing"),
        ("allow src 1.2.3.256", "1.2.3.256", "‘1.2.3.256’ is no IPv4 address"),
        ("allow src 2001:db8::g", "2001:db8::g", "‘2001:db8::g’ is no IPv6 address"),
        ("allow dst net 2001:db8::/129", "2001:db8::/129", "its length is a number from 0 to 128"),
        ("allow ip6 host 1.2.3.4", "1.2.3.4", "‘1.2.3.4’ is no IPv6 address"),
        ("allow ip6 src 1:2:3:4:5:6", "1:2:3:4:5:6", "is an Ethernet address, no IPv6 address"),
        ("allow ip src 1:2:3:4:5:6", "1:2:3:4:5:6", "‘1:2:3:4:5:6’ is no IPv4 address"),
        ("allow src 1:2:3:4:5", "1:2:3:4:5", "neither an IPv6 address nor an Ethernet address"),
        ("allow ether port 5", "ether port 5", "‘port’: ip only"),
        ("allow ip frag 5", "ip frag 5", "‘ip frag’: value not supported"),
        ("allow ip ttl 256", "ip ttl 256", "‘ip ttl’: out of range, bound 255"),
        ("allow host port 5", "port", "type specified twice"),
        ("allow src dst 1.2.3.4", "dst", "‘src’ or ‘dst’ specified twice"),
        ("allow tcp udp port 5", "udp", "transport protocol specified twice"),
        ("allow tcp proto 17", "tcp proto 17", "‘proto’: specified twice"),
        ("allow proto 256", "proto 256", "‘proto’: out of range, bound 255"),
        ("allow proto != tcpudp", "proto != tcpudp", "‘tcpudp’: operator or mask not supported"),
        ("allow ip[1", "[", "missing ‘]’"),
        ("allow ip[x] 1", "[x]", "syntax error after ‘[’, expected ‘[POS]’ or ‘[POS:LEN]’"),
        ("allow ip[0:5] 1", "[0:5]", "LEN in ‘[POS:LEN]’ out of range, should be between 1 and 4"),
        ("allow ip[2:4] 1", "[2:4]", "field [2:4] does not fit in a single word"),
        ("allow ip[256] 1", "[256]", "POS in ‘[POS:LEN]’ out of range, bound 255"),
        ("allow tcp[8192] 1", "[8192]", "POS in ‘[POS:LEN]’ out of range, bound 8191"),
        ("allow ip[0]", "ip[0]", "‘ip[...]’: value missing"),
    ] {
        let result = FilterProgram::compile_rules(&[rule], 4, &Scope::builtin());
        let Err(findings) = result else {
            assert_eq!(message, "", "{rule} is accepted");
            continue;
        };
        let error = &findings[0];
        assert!(error.message.contains(message) && !message.is_empty(), "{rule}: {findings:?}");
        let end = rule.rfind(place).unwrap() + place.len();
        assert!(error.range.end == end, "{rule}: {error:?}");
        assert!(place.contains(&rule[error.range.clone()]), "{rule}: {error:?}");
    }
    let none = FilterProgram::compile_rules(&["allow tcp"], 0, &Scope::builtin());
    assert_eq!(none.unwrap_err()[0].message, "‘allow’ is meaningless, element has zero outputs");
}

#[test]
fn unknown_words_get_a_suggestion() {
    for (rule, help) in [
        ("alow tcp", "did you mean ‘allow’?"),
        ("permit tcp", "a rule begins with ‘allow’, ‘deny’, ‘drop’ or 0, the only output"),
        ("allow al", "‘al’ is unknown; did you mean ‘all’?"),
        ("allow tcp sport 80", "‘sport’ is unknown; did you mean ‘src port’?"),
        ("allow dst hots 1.2.3.4", "‘hots’ is unknown; did you mean ‘host’?"),
        ("allow proto tpc", "‘tpc’ is unknown; did you mean ‘tcp’?"),
        ("allow xyzzy", "‘xyzzy’ is neither a keyword nor a known name, number or address"),
        ("allow port", ""),
        ("allow 2001:db8::1::2", "‘2001:db8::1::2’ is no IPv6 address"),
        ("allow host != 1.2.3.4.5", "‘1.2.3.4.5’ is no IPv4 address"),
        (
            "allow icmp6 type neighborsolict",
            "‘neighborsolict’ is unknown; did you mean ‘neighborsolicit’?",
        ),
        ("allow icmp6 type echo or ecko", "‘ecko’ is unknown; did you mean ‘echo’?"),
        ("allow icmp type ecko", "‘ecko’ is unknown; did you mean ‘echo’?"),
        ("allow ip6 ext routin", "‘routin’ is unknown; did you mean ‘routing’?"),
        ("allow tcp opt snn", "‘snn’ is unknown; did you mean ‘syn’?"),
        ("allow dst port htpps", "‘htpps’ is unknown; did you mean ‘https’?"),
        ("allow tcp and all", "‘all’ cannot stand here"),
    ] {
        let errors = FilterProgram::compile_rules(&[rule], 1, &Scope::builtin()).unwrap_err();
        assert_eq!(errors[0].help, help, "{rule}");
    }
}

#[test]
fn errors_of_all_rules_are_reported_together() {
    let rules = ["allow port 70000 or ttl 300", "allow tcp", "nonsense (", "drop ip ttl"];
    let findings = FilterProgram::compile_rules(&rules, 1, &Scope::builtin()).unwrap_err();
    let places: Vec<(usize, &str)> = findings
        .iter()
        .map(|finding| (finding.argument, &rules[finding.argument][finding.range.clone()]))
        .collect();
    let expected = [(0, "port 70000"), (0, "ttl 300"), (2, "nonsense"), (3, "ip ttl")];
    assert_eq!(places, expected);
    assert_eq!(findings[0].to_string(), format!("pattern 0: {}", findings[0].message));
}

#[test]
fn warnings_do_not_prevent_compilation() {
    let scope = Scope::builtin();
    for (rule, warning) in [
        ("allow port < 0", "relation ‘< 0’ is always false (range 0-65535)"),
        ("allow port >= 0", "relation ‘>= 0’ is always true (range 0-65535)"),
        ("allow ip ttl > 255", "relation ‘> 255’ is always false (range 0-255)"),
        ("allow ip ttl <= 300", "relation ‘<= 300’ is always true (range 0-255)"),
        ("allow src ip ttl 5", "‘src ip ttl’: ‘src’ or ‘dst’ ignored"),
        (
            "allow src 1:2:3:4:5:6",
            "‘1:2:3:4:5:6’ is taken for an Ethernet address; say so with ‘ether’ before it, or give all eight groups \
             of an IPv6 address",
        ),
    ] {
        let (_, warnings) = FilterProgram::compile_rules(&[rule], 1, &scope).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(!warnings[0].is_error);
        assert_eq!(warnings[0].message, warning);
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |n: usize| format!("allow {}tcp{}", "(".repeat(n), ")".repeat(n));
    let compile = |rule: String| FilterProgram::compile_rules(&[rule], 1, &Scope::builtin());
    assert!(compile(deep(150)).is_ok());
    let findings = compile(deep(100_000)).unwrap_err();
    assert_eq!(findings[0].message, "expression is nested more than 200 deep");
    assert!(compile(format!("allow {}tcp", "!".repeat(100_000))).is_ok());
    assert!(compile(format!("allow {}tcp", "tcp ? udp : ".repeat(2_000))).is_ok());
    assert!(compile(format!("allow {}tcp", "tcp ? ".repeat(100_000))).is_err());
}

/// A pattern as text, and its meaning.
#[derive(Clone)]
struct Meaning {
    text: String,
    holds: std::sync::Arc<dyn Fn(&Packet) -> bool>,
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(out)
    }
}

fn meaning(text: String, holds: impl Fn(&Packet) -> bool + 'static) -> Meaning {
    Meaning { text, holds: std::sync::Arc::new(holds) }
}

fn relation() -> impl Strategy<Value = (&'static str, fn(u32, u32) -> bool)> {
    prop::sample::select(vec![
        ("", (|a, b| a == b) as fn(u32, u32) -> bool),
        ("==", |a, b| a == b),
        ("!=", |a, b| a != b),
        (">", |a, b| a > b),
        (">=", |a, b| a >= b),
        ("<", |a, b| a < b),
        ("<=", |a, b| a <= b),
    ])
}

fn is_first_fragment(packet: &Packet) -> bool {
    packet.ip[6] & 0x1f == 0 && packet.ip[7] == 0
}

fn condition() -> impl Strategy<Value = Meaning> {
    let byte = (0..20_usize, relation(), 0..=255_u32, prop_oneof![Just(255), 1..=255_u32]);
    let byte = byte.prop_map(|(at, (operator, holds), value, mask)| {
        // The value of an equality under a mask is masked too; that of an order is not.
        let wanted = if ["", "==", "!="].contains(&operator) { value & mask } else { value };
        let text = format!("ip[{at}] & {mask} {operator} {value}");
        meaning(text, move |packet| holds(u32::from(packet.ip[at]) & mask, wanted))
    });
    let ends = prop::sample::select(vec!["src", "dst", "src or dst", "src and dst"]);
    let port = (ends.clone(), relation(), prop_oneof![0..3_u32, 0..=65535_u32]);
    let port = port.prop_map(|(ends, (operator, holds), value)| {
        meaning(format!("{ends} port {operator} {value}"), move |packet| {
            let port = |at: usize| {
                u16::from_be_bytes([packet.transport[at], packet.transport[at + 1]]).into()
            };
            // `!=`, `<=`, `<` and `>=` negate the whole: neither, or not both.
            let (operator, negated): (fn(u32, u32) -> bool, bool) = match operator {
                "!=" => (|a, b| a == b, true),
                "<=" => (|a, b| a > b, true),
                "<" => (|a, b| a + 1 > b, true),
                ">=" => (|a, b| a + 1 > b, false),
                _ => (holds, false),
            };
            let (source, destination) = (operator(port(0), value), operator(port(2), value));
            let found = match ends {
                "src" => source,
                "dst" => destination,
                "src or dst" => source || destination,
                _ => source && destination,
            };
            [6, 17].contains(&packet.ip[9]) && is_first_fragment(packet) && found != negated
        })
    });
    let host = (ends, 0..4_u8, 0..=32_u32).prop_map(|(ends, last, length)| {
        let address = u32::from_be_bytes([10, 0, 0, last]);
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        let text = format!("{ends} net 10.0.0.{last}/{length}");
        meaning(text, move |packet| {
            let end = |at: usize| {
                u32::from_be_bytes(packet.ip[at..at + 4].try_into().unwrap()) & mask
                    == address & mask
            };
            match ends {
                "src" => end(12),
                "dst" => end(16),
                "src or dst" => end(12) || end(16),
                _ => end(12) && end(16),
            }
        })
    });
    let plain = prop::sample::select(vec![
        meaning("tcp".into(), |packet| packet.ip[9] == 6),
        meaning("udp".into(), |packet| packet.ip[9] == 17),
        meaning("true".into(), |_| true),
        meaning("ip frag".into(), |packet| packet.ip[6] & 0x3f != 0 || packet.ip[7] != 0),
        meaning("tcp opt syn".into(), |packet| {
            packet.ip[9] == 6 && is_first_fragment(packet) && packet.transport[13] & 2 != 0
        }),
        meaning("ack".into(), |packet| {
            packet.ip[9] == 6 && is_first_fragment(packet) && packet.transport[13] & 16 != 0
        }),
    ]);
    prop_oneof![byte, port, host, plain]
}

fn pattern() -> impl Strategy<Value = Meaning> {
    condition().prop_recursive(4, 16, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        let (and, or) = (pair.clone(), pair);
        prop_oneof![
            and.prop_map(|(a, b)| {
                let text = format!("({}) && ({})", a.text, b.text);
                meaning(text, move |packet| (a.holds)(packet) && (b.holds)(packet))
            }),
            or.prop_map(|(a, b)| {
                let text = format!("({}) or ({})", a.text, b.text);
                meaning(text, move |packet| (a.holds)(packet) || (b.holds)(packet))
            }),
            inner.clone().prop_map(|a| {
                meaning(format!("not ({})", a.text), move |packet| !(a.holds)(packet))
            }),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| {
                let text = format!("({}) ? ({}) : ({})", a.text, b.text, c.text);
                meaning(
                    text,
                    move |packet| {
                        if (a.holds)(packet) { (b.holds)(packet) } else { (c.holds)(packet) }
                    },
                )
            }),
        ]
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let protocol = prop::sample::select(vec![6_u8, 17, 1]);
    let address = prop::sample::select(vec![[10, 0, 0, 1], [10, 0, 0, 2], [10, 9, 0, 3], [1; 4]]);
    let fragment = prop::sample::select(vec![[0_u8, 0], [0x20, 0], [0, 1], [0x40, 0]]);
    let noise = any::<[u8; 20]>();
    let ports = prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 20);
    (protocol, address.clone(), address, fragment, noise, ports).prop_map(
        |(protocol, source, destination, fragment, noise, transport)| {
            let packet = Packet { ip: noise, ..Packet::new(protocol, &transport) };
            let packet = packet.with(9, &[protocol]).with(6, &fragment);
            packet.with(12, &source).with(16, &destination)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn rules_match_packets_as_their_words_describe(
        patterns in prop::collection::vec(pattern(), 1..4),
        packets in prop::collection::vec(packet(), 30),
    ) {
        let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
        for engine in [Engine::Program, Engine::Index] {
            let scope = Scope::builtin();
            let (program, _) = FilterProgram::compile_patterns_for(engine, &texts, &scope).unwrap();
            for packet in &packets {
                let wanted = patterns.iter().position(|pattern| (pattern.holds)(packet));
                prop_assert_eq!(packet.classify(&program), wanted.unwrap_or(DROP), "{}", program);
            }
        }
    }

    #[test]
    fn no_rule_and_no_packet_panics(
        rules in prop::collection::vec(".{0,40}", 0..4),
        words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..12),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        [mac, network, transport] in any::<[u8; 3]>(),
    ) {
        let _ = FilterProgram::compile_rules(&rules, 2, &Scope::builtin());
        let _ = FilterProgram::compile_patterns(&rules, &Scope::builtin());
        let rule = format!("allow {}", words.join(" "));
        if let Ok((program, _)) = FilterProgram::compile_rules(&[rule], 2, &Scope::builtin()) {
            let from = |start: u8| bytes.get(usize::from(start)..).unwrap_or_default();
            let (mac, network, transport) = (from(mac), from(network), from(transport));
            let output = program.classify(&IpSections { mac, network, transport, ..IpSections::default() });
            prop_assert!(output == DROP || output < 2);
        }
    }
}

/// Words of the language, and other words.
const WORDS: [&str; 44] = [
    "src",
    "dst",
    "and",
    "or",
    "not",
    "!",
    "(",
    ")",
    "tcp",
    "udp",
    "icmp",
    "ip",
    "ether",
    "host",
    "net",
    "port",
    "proto",
    "opt",
    "type",
    "ttl",
    "frag",
    "unfrag",
    "win",
    "10.0.0.1",
    "10/8",
    "1:2:3:4:5:6",
    "80",
    "www",
    "syn",
    "echo",
    "[",
    "]",
    "4:2",
    "0",
    "&",
    "=",
    ">",
    "<=",
    "!=",
    "?",
    ":",
    "true",
    "transp",
    "mask",
];
