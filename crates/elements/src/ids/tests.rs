//! Tests of the element with realistic packets.

use etherparse::PacketBuilder;
use millrace_core::testing::Rig;
use millrace_core::{Packet, Timestamp};
use millrace_gpu::region::Base;
use proptest::prelude::*;

use super::detection::payload::{From, locate};

/// A TCP segment in an Ethernet frame.
fn tcp(from: u16, to: u16, sequence: u32, syn: bool, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
    let builder = builder.tcp(from, to, sequence, 1000);
    let builder = if syn { builder.syn() } else { builder };
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
    let mut frame = Vec::new();
    builder.udp(5, 6).write(&mut frame, payload).unwrap();
    frame
}

/// The text of a frame, and the number of its protocol kind.
fn text(frame: &[u8], from: From) -> (Vec<u8>, u32) {
    let packet = Packet::from_bytes(frame).unwrap();
    let text = locate(&packet, from).text;
    (text.bytes.to_vec(), text.kind as u32)
}

#[test]
fn the_payload_is_found_after_every_header() {
    let cut = |frame: &[u8], length: usize| frame[..length].to_vec();
    let with = |frame: &[u8], changes: &[(usize, u8)]| {
        let mut frame = frame.to_vec();
        changes.iter().for_each(|&(at, byte)| frame[at] = byte);
        frame
    };
    let udp = udp(b"payload");
    let tcp = tcp(1, 2, 3, false, b"payload");
    let tagged = |tags: &[u8]| [&udp[..12], tags, &udp[12..]].concat();
    let mut icmp = Vec::new();
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
    builder.icmpv4_echo_request(1, 2).write(&mut icmp, b"payload").unwrap();
    let mut v6 = Vec::new();
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv6([1; 16], [2; 16], 9);
    builder.udp(5, 6).write(&mut v6, b"payload").unwrap();
    // Eight bytes of destination options.
    let mut options = with(&v6, &[(20, 60), (19, v6[19] + 8)]);
    options.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    // Ten more of them.
    let mut many = with(&options, &[(54, 60), (19, options[19] + 80)]);
    many.splice(
        62..62,
        [60, 0, 1, 4, 0, 0, 0, 0].repeat(9).into_iter().chain([17, 0, 1, 4, 0, 0, 0, 0]),
    );
    let mut fragment = with(&v6, &[(20, 44), (19, v6[19] + 8)]);
    fragment.splice(54..54, [17, 0, 0, 8, 0, 0, 0, 1]);
    let mut arp = vec![0xff; 14];
    arp[12..].copy_from_slice(&[8, 6]);
    arp.extend(b"arp");

    let cases: &[(&str, Vec<u8>, &[u8], u32)] = &[
        ("udp", udp.clone(), b"payload", 2),
        ("tcp", tcp.clone(), b"payload", 1),
        ("icmp", icmp, b"payload", 4),
        ("padding is no payload", [&udp[..], &[0; 20]].concat(), b"payload", 2),
        ("vlan", tagged(&[0x81, 0, 0, 7]), b"payload", 2),
        ("qinq", tagged(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 7]), b"payload", 2),
        ("ipv6", v6, b"payload", 2),
        ("ipv6 options", options, b"payload", 2),
        ("many ipv6 options", many, b"payload", 2),
        ("ipv6 later fragment", fragment.clone(), &fragment[62..], 2),
        ("no ip", arp, b"", 8),
        ("a later fragment", with(&udp, &[(21, 1)]), &udp[34..], 2),
        ("another protocol", with(&udp, &[(23, 47)]), &udp[34..], 8),
        ("tcp header length too small", with(&tcp, &[(46, 0x10)]), b"", 1),
        ("tcp header length too great", with(&tcp, &[(46, 0xf0)]), b"", 1),
        ("ip header length too small", with(&udp, &[(14, 0x44)]), b"", 2),
        ("ip version", with(&udp, &[(14, 0x35)]), b"", 8),
        ("total length too small", with(&udp, &[(17, 3)]), b"payload", 2),
        ("total length too great", with(&udp, &[(16, 99)]), b"payload", 2),
        ("cut in the payload", cut(&udp, 44), b"pa", 2),
        ("cut in the udp header", cut(&udp, 40), b"", 2),
        ("cut in the ip header", cut(&udp, 30), b"", 8),
        ("cut in the ethernet header", cut(&udp, 13), b"", 8),
        ("empty", vec![], b"", 8),
    ];
    for (name, frame, bytes, kind) in cases {
        assert_eq!(text(frame, From::default()), (bytes.to_vec(), *kind), "{name}");
    }
    let froms = [
        (Base::Ethernet, 0),
        (Base::Network, 14),
        (Base::NetworkPayload, 34),
        (Base::Transport, 34),
        (Base::TransportPayload, 42),
    ];
    for (base, at) in froms {
        assert_eq!(text(&udp, From(base)), (udp[at..].to_vec(), 2), "{base:?}");
    }
    assert_eq!(text(&fragment, From(Base::NetworkPayload)).0, fragment[54..]);
    // With the network header position set, and with the header stripped.
    let mut packet = Packet::from_bytes(&udp[10..]).unwrap();
    packet.set_network_header(4, 20);
    assert_eq!(locate(&packet, From::default()).text.bytes, b"payload");
    assert!(packet.strip(32));
    assert_eq!(locate(&packet, From::default()).text.bytes, b"payload");
}

#[test]
fn packets_with_alerts_leave_by_output_1() {
    let mut rig =
        Rig::new("IDSMatcher(PATTERN bad, PATTERN \"\\<00ff>\", NOCASE true)", 1, 2).unwrap();
    let texts: [&[u8]; 4] = [b"good", b"a BaD one", b"\x00\xff", b""];
    let packets = texts.map(|text| Packet::from_bytes(&udp(text)).unwrap());
    let out = rig.push_packets(0, packets.into());
    let annotations = out.map_to(|packet| packet.anno_u32(44));
    assert_eq!(annotations, [vec![0, 0], vec![1, 2]]);
    assert_eq!(rig.read("alerts").unwrap(), "2");
    assert_eq!(rig.read("counts").unwrap(), "1 1 - bad\n2 1 - \\x00\\xff\n");
    rig.write("reset_counts", "").unwrap();
    assert_eq!(rig.read("alerts").unwrap(), "0");
    assert_eq!(rig.read("counts").unwrap(), "1 0 - bad\n2 0 - \\x00\\xff\n");
    assert!(rig.stats().balanced());

    let mut rig = Rig::new("IDSMatcher(PATTERN bad, ANNO 20)", 1, 1).unwrap();
    let packets = texts.map(|text| {
        let mut packet = Packet::from_bytes(&udp(&text.to_ascii_lowercase())).unwrap();
        packet.set_anno_u32(20, 99);
        packet
    });
    let out = rig.push_packets(0, packets.into());
    assert_eq!(out.map_to(|packet| packet.anno_u32(20)), [[0, 1, 0, 0]]);
    assert!(rig.stats().balanced());
}

/// Extracts a value from each packet that left.
trait MapTo {
    fn map_to<T>(&self, of: impl Fn(&Packet) -> T) -> Vec<Vec<T>>;
}

impl MapTo for Vec<Vec<Packet>> {
    fn map_to<T>(&self, of: impl Fn(&Packet) -> T) -> Vec<Vec<T>> {
        self.iter().map(|port| port.iter().map(&of).collect()).collect()
    }
}

#[test]
fn all_rules_are_counted_with_all() {
    for (all, counts) in [("false", "1 2 - b\n2 0 - ab\n"), ("true", "1 2 - b\n2 1 - ab\n")] {
        for flow in ["false", "true"] {
            let config = format!("IDSMatcher(PATTERN b, PATTERN ab, ALL {all}, FLOW {flow})");
            let mut rig = Rig::new(&config, 1, 1).unwrap();
            let _ = rig.push(0, &[udp(b"abab"), udp(b"b"), udp(b"a")]);
            assert_eq!(rig.read("counts").unwrap(), counts, "{config}");
        }
    }
}

#[test]
fn rules_can_be_replaced_while_packets_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("alert tcp any any -> any any (content:\"x\"; sid:7;)\n");
    let config = format!("IDSMatcher(\"{}\", PATTERN y)", file.display());
    let mut rig = Rig::new(&config, 1, 1).unwrap();
    let frames = [tcp(1, 2, 3, false, b"x"), udp(b"x"), udp(b"y"), udp(b"z")];
    let results = |rig: &mut Rig| {
        let packets = frames.iter().map(|frame| Packet::from_bytes(frame).unwrap());
        rig.push_packets(0, packets.collect()).map_to(|packet| packet.anno_u32(44)).remove(0)
    };
    assert_eq!(results(&mut rig), [1, 0, 2, 0]);
    assert_eq!(
        rig.read("patterns").unwrap(),
        "alert tcp any any -> any any (content:\"x\"; sid:7;)\nalert ip any any -> any any (content:\"y\";)\n"
    );
    rig.write("patterns", "z\nx").unwrap();
    assert_eq!(results(&mut rig), [2, 2, 0, 1]);
    assert_eq!(rig.read("counts").unwrap(), "1 1 - z\n2 2 - x\n");
    let error = rig.write("patterns", "z\n||").unwrap_err().to_string();
    assert!(error.contains("line 2, column 2: no bytes"), "{error}");
    assert_eq!(results(&mut rig), [2, 2, 0, 1]);
    rig.write("load", "").unwrap();
    assert_eq!(results(&mut rig), [1, 0, 2, 0]);
    let other = folder.path().join("other");
    std::fs::write(&other, "q").unwrap();
    rig.write("load", &other.display().to_string()).unwrap();
    assert_eq!(results(&mut rig), [0, 0, 2, 0]);
    write("alert tcp any any -> any any (pcre:\"/x/\";)");
    let error = rig.write("load", "").unwrap_err().to_string();
    assert!(error.contains("rules:1:31: option 'pcre'"), "{error}");
    // A file that is being written may be empty for a moment.
    for text in ["", "\n# patterns\n"] {
        write(text);
        let error = rig.write("load", "").unwrap_err().to_string();
        assert_eq!(error, format!("{}: there is no pattern in it", file.display()));
        assert!(Rig::new(&config, 1, 1).is_err());
    }
    for name in ["/dev/zero", "/", "/no/such/file"] {
        let error = rig.write("load", name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
    assert_eq!(results(&mut rig), [0, 0, 2, 0]);
    assert!(rig.read("memory").unwrap().parse::<usize>().unwrap() > 100);
    assert!(rig.read("build_time").unwrap().parse::<f64>().unwrap() > 0.0);
    assert_eq!(rig.read("engine").unwrap(), "dfa");
    assert!(rig.read("flows").is_err());
}

#[test]
fn invalid_arguments_are_reported() {
    let cases = [
        ("", "FILE or PATTERN is missing"),
        ("PATTERN \"\"", "PATTERN: empty pattern"),
        ("PATTERN a, ENGINE gpu", "ENGINE"),
        ("PATTERN a, FROM header", "FROM"),
        ("PATTERN a, FORMAT xml", "FORMAT"),
        ("PATTERN a, ANNO 45", "ANNO: out of range, bound 44"),
        ("PATTERN a, FLOWS 3", "FLOWS has no meaning without FLOW true"),
        ("PATTERN a, TIMEOUT 3", "TIMEOUT has no meaning without FLOW true"),
        ("PATTERN a, FLOW true, FLOWS 0", "FLOWS"),
        ("PATTERN a, FLOW true, FROM NETWORK", "only the payload is searched"),
        ("PATTERN a, FLOW true, ENGINE hyperscan", "the engine is DFA"),
        ("PATTERN a, PORT 3", "PORT"),
        ("/no/such/file", "No such file"),
    ];
    for (arguments, message) in cases {
        let Err(diagnostics) = Rig::new(&format!("IDSMatcher({arguments})"), 1, 1) else {
            panic!("{arguments}");
        };
        let text: Vec<String> = diagnostics.iter().map(|found| format!("{found:?}")).collect();
        assert!(text.concat().contains(message), "{arguments}: {text:?}");
    }
}

#[test]
fn the_engine_makes_no_difference() {
    let rules = "PATTERN ab, PATTERN \"\\<00>\", PATTERN b, NOCASE true, ENGINE";
    let frames = [udp(b"xAB"), udp(b"a b"), udp(b"\0"), udp(b"")];
    let packets = || frames.iter().map(|frame| Packet::from_bytes(frame).unwrap()).collect();
    match Rig::new(&format!("IDSMatcher({rules} HYPERSCAN)"), 1, 1) {
        Ok(mut rig) => {
            let out = rig.push_packets(0, packets());
            assert_eq!(out.map_to(|packet| packet.anno_u32(44)), [[1, 3, 2, 0]]);
            assert_eq!(rig.read("engine").unwrap(), "hyperscan");
        }
        // An engine requested by name is not replaced by another one.
        Err(diagnostics) => {
            let text = format!("{diagnostics:?}");
            assert!(text.contains("no Hyperscan: "), "{text}");
            millrace_testkit::announce("the_engine_makes_no_difference", &"needs libhyperscan5");
        }
    }
    let mut rig = Rig::new(&format!("IDSMatcher({rules} auto)"), 1, 1).unwrap();
    let out = rig.push_packets(0, packets());
    assert_eq!(out.map_to(|packet| packet.anno_u32(44)), [[1, 3, 2, 0]]);
    assert_eq!(rig.read("engine").unwrap(), "dfa");
}

/// Pushes segments `(sequence, payload)` of one direction, and returns their results.
fn follow(rig: &mut Rig, segments: &[(u32, &[u8])]) -> Vec<u32> {
    let frames = segments.iter().map(|&(sequence, payload)| tcp(1, 2, sequence, false, payload));
    push(rig, frames.collect())
}

fn push(rig: &mut Rig, frames: Vec<Vec<u8>>) -> Vec<u32> {
    let packets = frames.iter().map(|frame| Packet::from_bytes(frame).unwrap());
    rig.push_packets(0, packets.collect()).map_to(|packet| packet.anno_u32(44)).remove(0)
}

fn flow_rig(arguments: &str) -> Rig {
    Rig::new(&format!("IDSMatcher(PATTERN abcd, FLOW true{arguments})"), 1, 1).unwrap()
}

#[test]
fn patterns_match_across_segments() {
    type Segments<'a> = &'a [(u32, &'a [u8])];
    let cases: &[(&str, Segments<'_>, &[u32])] = &[
        ("in order", &[(10, b"ab"), (12, b"c"), (13, b"d"), (14, b"abcd")], &[0, 0, 1, 1]),
        ("with empty segments", &[(10, b"ab"), (12, b""), (99, b""), (12, b"cd")], &[0, 0, 0, 1]),
        ("numbers that wrap", &[(u32::MAX - 1, b"abc"), (1, b"d")], &[0, 1]),
        ("a segment again", &[(10, b"ab"), (10, b"ab"), (12, b"cd")], &[0, 0, 1]),
        ("an alert again", &[(10, b"xabcd"), (10, b"xabcd")], &[1, 1]),
        ("more than before", &[(10, b"ab"), (10, b"abc"), (13, b"d")], &[0, 0, 1]),
        ("an overlap", &[(10, b"ab"), (11, b"bcd")], &[0, 1]),
        ("behind a gap", &[(10, b"ab"), (20, b"cd"), (22, b"abc"), (25, b"d")], &[0, 0, 0, 1]),
        ("late", &[(10, b"ab"), (14, b"ab"), (12, b"xx"), (16, b"cd")], &[0, 0, 0, 1]),
    ];
    for (name, segments, results) in cases {
        assert_eq!(follow(&mut flow_rig(""), segments), *results, "{name}");
    }
}

#[test]
fn connections_and_directions_are_separate() {
    let mut rig = flow_rig("");
    let frames = vec![
        tcp(1, 2, 10, false, b"ab"),
        tcp(2, 1, 12, false, b"cd"),
        tcp(3, 2, 12, false, b"cd"),
        tcp(1, 2, 12, false, b"c"),
        // Another connection with the same ports.
        tcp(1, 2, 12, true, b""),
        tcp(1, 2, 13, false, b"d"),
        udp(b"ab"),
        udp(b"cd"),
    ];
    assert_eq!(push(&mut rig, frames), [0; 8]);
    assert_eq!(rig.read("flows").unwrap(), "3");
    // A repeated SYN belongs to the same connection.
    let frames =
        vec![tcp(1, 2, 12, true, b""), tcp(1, 2, 14, false, b"abc"), tcp(1, 2, 17, false, b"d")];
    assert_eq!(push(&mut rig, frames), [0, 0, 1]);
}

#[test]
fn flows_are_limited_and_time_out() {
    let mut rig = flow_rig(", FLOWS 1, TIMEOUT 10");
    let first = |sequence, payload: &[u8]| tcp(1, 2, sequence, false, payload);
    let second = |sequence, payload: &[u8]| tcp(3, 4, sequence, false, payload);
    let frames = vec![first(1, b"ab"), second(1, b"ab"), second(3, b"cd"), second(5, b"abcd")];
    assert_eq!(push(&mut rig, frames), [0, 0, 0, 1]);
    let _ = rig.pass(Timestamp::from_nanos(11_000_000_000));
    assert_eq!(rig.read("flows").unwrap(), "0");
    let frames = vec![second(1, b"ab"), first(3, b"cd"), second(3, b"cd")];
    assert_eq!(push(&mut rig, frames), [0, 0, 1]);
}

#[test]
fn new_rules_restart_the_search_in_a_flow() {
    let mut rig = flow_rig("");
    let rules = "alert ip any any -> any any (content:\"cd\"; offset:2; depth:2;)";
    assert_eq!(follow(&mut rig, &[(10, b"ab")]), [0]);
    rig.write(
        "patterns",
        &format!("{rules}\n{}", rules.replace("\"cd\"; offset:2; depth:2;", "\"abcd\";")),
    )
    .unwrap();
    // The start of the flow is unchanged.
    assert_eq!(follow(&mut rig, &[(12, b"cd"), (14, b"cd")]), [1, 0]);
    // A partial match of the old rules does not count for the new ones, even if they are the same.
    rig.write("patterns", "abcd").unwrap();
    assert_eq!(follow(&mut rig, &[(16, b"xxabc")]), [0]);
    rig.write("patterns", "abcd").unwrap();
    assert_eq!(follow(&mut rig, &[(21, b"d"), (22, b"abc"), (25, b"d")]), [0, 0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Segments in order are searched as one text.
    #[test]
    fn segments_are_one_text(text in "[abcd]{0,40}", cuts in prop::collection::vec(0_usize..40, 0..6), start: u32) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let bytes = text.as_bytes();
        let segments = cuts.windows(2).map(|cut| (start.wrapping_add(cut[0] as u32), &bytes[cut[0]..cut[1]]));
        let results = follow(&mut flow_rig(""), &segments.collect::<Vec<_>>());
        prop_assert_eq!(results.iter().any(|&result| result > 0), text.contains("abcd"));
    }

    #[test]
    fn header_parsing_never_panics(mut frame in prop::collection::vec(any::<u8>(), 0..90), kind in 0..4_usize, network: Option<u8>) {
        if let Some(bytes) = frame.get_mut(12..15) {
            bytes.copy_from_slice(&[[8, 0, 0x45], [8, 0, 0x4f], [0x86, 0xdd, 0x60], [0x81, 0, 0]][kind]);
        }
        let mut packet = Packet::from_bytes(&frame).unwrap();
        if let Some(network) = network {
            packet.set_network_header(network.into(), 20);
        }
        for base in &Base::ALL[1..] {
            let located = locate(&packet, From(*base));
            prop_assert!(located.text.bytes.len() <= frame.len());
            let _ = located.to_string();
        }
    }
}
