//! SDNClassifier - classifies packets by ClassBench rules over seven header fields
//!
//! # Synopsis
//! `SDNClassifier([FILE, keywords RULE, DEFAULT, CACHE])`
//!
//! # Description
//! Sends each packet to the output of the first rule that it matches. Rules test Ethernet source, destination and type,
//! IPv4 source, destination and protocol, and TCP and UDP ports. Each line of FILE holds one rule in the format of
//! ClassBench, followed by an action:
//!
//! `@192.168.0.0/16 10.1.2.0/24 0 : 65535 1521 : 1521 0x06/0xff eth_type=0x0800 3`
//!
//! The fields are: source and destination, each a prefix of any length, or address and mask, `10.0.0.1/255.0.0.255`;
//! the first and the last source port; the first and the last destination port; protocol and mask; any of
//! `eth_src=ADDRESS[/MASK]`, `eth_dst=ADDRESS[/MASK]` and `eth_type=TYPE[/MASK]`; and the number of an output, or
//! `drop`. ClassBench's TCP flags may precede the action, with a mask of 0: they are not one of the seven fields. `#`
//! begins a comment.
//!
//! A condition that matches any value, such as `0.0.0.0/0`, `0 : 65535` or `0x00/0x00`, also matches packets without
//! the field. Any other condition requires that the packet has the field:
//!
//! - Ethernet addresses: a frame of 14 bytes or more.
//! - Type: the one after all VLAN tags (0x8100, 0x88a8). An IEEE 802.3 length is not a type.
//! - IPv4 addresses and protocol: an IPv4 header with type 0x0800. Neither IPv6 nor ARP has these fields.
//! - Ports: TCP or UDP, after IP options. Later fragments have none, nor have packets that are truncated before the
//!   ports.
//!
//! A packet begins at its MAC header if that is set, else at the start of its data, with an Ethernet header. If its
//! network header is less than 14 bytes after that, the packet has no Ethernet header, and is IPv4 if its version is 4.
//!
//! Decision trees find the rule. For 10,000 firewall-like rules they need 50 to 80 bytes per rule, 0.1 s to build, and
//! 20 to 50 ns per packet; if rules overlap so much that nothing distinguishes them, a packet is compared with one
//! after the other. A change of one rule takes about 20 µs (140 µs with 100,000 rules) and delays no packet: changes
//! are kept separately, and after 64 of them a background thread rebuilds the trees.
//!
//! # Arguments
//! - FILE: the file of rules. Positional. It is read when the configuration is checked and before the router starts. It
//!   must be a regular file, not a pipe or a device, of 256 MiB at most. A file without rules is refused: it is more
//!   likely the wrong file, or one that is still being written. To replace it, move a new version into its place (mv),
//!   so that no reader sees half of it.
//! - RULE: one more rule, before those of FILE. May be repeated. Keyword.
//! - DEFAULT: the output of packets that match no rule, or `drop`. Keyword, default drop.
//! - CACHE: how many flows each thread caches with their rules, at 32 bytes each; 0 for none. It helps if most packets
//!   belong to that many flows or fewer. Flows are distinguished only by fields that rules test. Keyword, default 0.
//!
//! # Ports
//! One agnostic input; one agnostic output, and any number of push outputs, numbered as in the rules.
//!
//! # Handlers
//! - `rules` (read, write): the rules in force, one per line, with their numbers from 0; writing a text of rules
//!   without numbers replaces them all.
//! - `insert N RULE` (write): inserts a rule before rule N, or at the end; `add RULE` (write): at the end.
//! - `replace N RULE` (write): replaces rule N.
//! - `remove N` (write): removes rule N.
//! - `load` (write): reads the rules from this file, or FILE again, and RULE.
//! - `counts` (read): packets by output, one line each: the output, or `drop` for packets dropped by a rule and `none`
//!   for packets dropped because no rule matched, and the count.
//! - `reset_counts` (write): resets the counts to 0.
//! - `cache_hits` (read): packets whose rule was cached.
//! - `cache_misses` (read): packets whose rule was not cached.
//! - `memory` (read): bytes of the trees.
//! - `build_time` (read): seconds that building the trees took.
//!
//! If new rules have an error, the message has file, line and column, and the old ones stay in force.
//!
//! After a hot swap the rules are those of the new configuration and its file, as after a start: changes made through
//! handlers are lost, as with routes. `counts` are kept, output by output.
//!
//! # Drops
//! - filtered: a rule drops the packet.
//! - no match: no rule matches, and DEFAULT is `drop`.
//!
//! # Example
//! ```click
//! InfiniteSource("hello", LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.2.3, 53)
//!     -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
//!     -> sdn :: SDNClassifier(RULE "@10.0.0.0/8 10.1.0.0/16 0 : 65535 53 : 53 0x11/0xff 1",
//!                             RULE "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0/0 eth_type=0x0806 drop",
//!                             DEFAULT 0);
//! sdn [0] -> Discard;
//! sdn [1] -> Counter -> Discard;
//! ```
//!
//! # See also
//! IPFilter, IPClassifier, Classifier, IDSMatcher

use millrace_core::args::Kind;
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Inspection, PerThread, Reason,
    Refused, Setup, isa, register,
};
use millrace_match::rules::{FlowCache, Key, NONE};

use super::sdn::counts::{self, SdnCounts};
use super::sdn::rules::{self, FILTERED, NO_MATCH, SdnRules, key_of};

/// The element; its manual is at the top of the file.
pub struct SdnClassifier {
    rules: SdnRules,
    counts: SdnCounts,
    /// The number of flows that each thread caches.
    cache: usize,
    at_hand: PerThread<AtHand>,
}

/// A thread's cache hits and misses.
#[derive(Default)]
struct AtHand {
    hits: Count,
    misses: Count,
}

register!(SdnClassifier, "sdn_classifier.rs");

impl Element for SdnClassifier {
    const CLASS: Class = Class::new("SDNClassifier", "1/1-", "a/ah");
    /// The cached flows.
    type Local = Option<FlowCache>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        const MOST_FLOWS: u32 = 1 << 24;
        let outputs = setup.outputs();
        let cache = setup.args.in_range("CACHE", Kind::Keyword, 0..=MOST_FLOWS).unwrap_or(0);
        let rules = SdnRules::configure(&mut setup.args, outputs);
        setup.args.complete()?;
        let (counts, at_hand) = (SdnCounts::new(outputs), PerThread::default());
        Ok(Self { rules, counts, cache: cache as usize, at_hand })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.rules.inspect(inspection);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.rules.initialize()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.counts.take(&old.counts);
    }

    fn push(&self, cx: &mut Context, cache: &mut Self::Local, _port: usize, batch: &mut Batch) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        let ports = self.classify(cx, cache, batch, &mut ports);
        cx.route_by(batch, ports);
    }

    /// Pulled packets of other outputs are pushed there.
    fn process(&self, cx: &mut Context, cache: &mut Self::Local, batch: &mut Batch) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        let mut ports = self.classify(cx, cache, batch, &mut ports).iter();
        batch.map_filter(|packet| match ports.next().copied() {
            Some(0) => Some(packet),
            Some(FILTERED) => cx.drop(packet, Reason::Filtered),
            Some(NO_MATCH) | None => cx.drop(packet, Reason::NoMatch),
            Some(port) => {
                cx.push(port.into(), packet);
                None
            }
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        rules::handlers(handlers, |sdn: &Self| &sdn.rules);
        counts::handlers(handlers, |sdn: &Self| &sdn.counts);
        handlers.read("cache_hits", |sdn, _| sdn.sum(|at_hand| at_hand.hits.get()));
        handlers.read("cache_misses", |sdn, _| sdn.sum(|at_hand| at_hand.misses.get()));
    }
}

impl SdnClassifier {
    /// The port of each packet, for [`Context::route_by`].
    fn classify<'p>(
        &self,
        cx: &Context,
        cache: &mut Option<FlowCache>,
        batch: &Batch,
        ports: &'p mut Ports,
    ) -> &'p [u16] {
        let rules = self.rules.get(cx);
        let mut keys = [Key::default(); Batch::CAPACITY];
        let mut found = [NONE; Batch::CAPACITY];
        let len = batch.len().min(Batch::CAPACITY);
        let (keys, found) = (&mut keys[..len], &mut found[..len]);
        for (key, packet) in keys.iter_mut().zip(batch) {
            *key = key_of(packet);
        }
        if self.cache == 0 {
            isa::run(
                #[inline(always)]
                || rules.live.classify(keys, found),
            );
        } else {
            let cache = cache.get_or_insert_with(|| FlowCache::new(self.cache));
            isa::run(
                #[inline(always)]
                || cache.classify(&rules.live, rules.number, keys, found),
            );
            let (hits, misses) = cache.take_counts();
            let at_hand = self.at_hand.mine(cx);
            at_hand.hits.add(hits);
            at_hand.misses.add(misses);
        }
        let ports = &mut ports[..len];
        for (port, found) in ports.iter_mut().zip(found) {
            *port = rules.port(*found);
        }
        self.counts.add(cx, ports.iter().copied());
        ports
    }

    fn sum(&self, of: impl Fn(&AtHand) -> u64) -> u64 {
        self.at_hand.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use millrace_match::rules::{Key, RuleSet};
    use millrace_testkit::generate::frame::Frame;
    use millrace_testkit::generate::rules::{self, Fields, KINDS};
    use millrace_testkit::generate::trace::Trace;

    use super::super::sdn::rules::{key_by_layers, key_of};
    use crate::test_packets::ip::withstands;

    const ANY: &str = "0 : 65535 0 : 65535";

    /// A frame with a UDP datagram from 10.0.0.1 port 1234 to 10.1.2.3 port 53.
    fn frame(tags: usize, options: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        frame.extend([0x81, 0, 0, 7].repeat(tags));
        let (ihl, len) = (0x45 + options as u8 / 4, 28 + options as u8);
        frame.extend([8, 0, ihl, 0, 0, len, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 2, 3]);
        frame.extend(vec![1; options]);
        frame.extend([4, 210, 0, 53, 0, 8, 0, 0]);
        frame
    }

    fn arp() -> Vec<u8> {
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 28]].concat()
    }

    fn lengths(out: &[Vec<Vec<u8>>]) -> Vec<usize> {
        out.iter().map(Vec::len).collect()
    }

    #[test]
    fn the_first_rule_decides_with_tags_and_options() {
        let element = format!(
            "SDNClassifier(RULE \"@10.0.0.0/9 10.1.2.2/31 0 : 65535 53 : 53 0x11/0xff 1\", \
             RULE \"@10.0.0.0/8 0.0.0.0/0 {ANY} 0/0 2\", \
             RULE \"@0.0.0.0/0 0.0.0.0/0 {ANY} 0/0 eth_type=0x0806 drop\")"
        );
        let mut rig = Rig::new(&element, 1, 3).unwrap();
        let mut fragment = frame(1, 0);
        fragment[25] = 1;
        let mut ipv6 = frame(0, 0);
        ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
        let packets = [
            frame(0, 0),
            frame(1, 8),
            frame(3, 0),
            // Without ports.
            fragment,
            frame(0, 4)[..41].to_vec(),
            arp(),
            ipv6,
            frame(0, 0)[..33].to_vec(),
            vec![],
        ];
        assert_eq!(lengths(&rig.push(0, &packets)), [0, 3, 2]);
        assert_eq!(rig.read("counts").unwrap(), "0 0\n1 3\n2 2\ndrop 1\nnone 3\n");
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1), (Reason::NoMatch, 3)]);
        assert!(rig.stats().balanced());
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("counts").unwrap(), "0 0\n1 0\n2 0\ndrop 0\nnone 0\n");
    }

    #[test]
    fn packets_without_a_rule_go_to_the_default_output() {
        let rule = format!("RULE \"@1.0.0.0/8 0.0.0.0/0 {ANY} 0/0 0\"");
        let mut rig = Rig::new(&format!("SDNClassifier({rule}, DEFAULT 1)"), 1, 2).unwrap();
        assert_eq!(lengths(&rig.push(0, &[frame(0, 0), arp()])), [0, 2]);
    }

    #[test]
    fn rules_of_a_file_follow_inline_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let own = format!("RULE \"@10.0.0.1/32 0.0.0.0/0 {ANY} 0/0 1\"");
        let element = format!("SDNClassifier({}, {own})", path.display());
        assert!(Rig::new(&element, 1, 2).is_err());
        std::fs::write(&path, format!("# rules\n@10.0.0.0/8 0.0.0.0/0 {ANY} 0/0 0 # all\n"))
            .unwrap();
        let mut rig = Rig::new(&element, 1, 2).unwrap();
        let mut other = frame(0, 0);
        other[29] = 9;
        assert_eq!(lengths(&rig.push(0, &[frame(0, 0), other])), [1, 1]);
        let lines = rig.read("rules").unwrap();
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.starts_with("0 @10.0.0.1/32 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 1\n1 "));
        std::fs::write(&path, format!("\n@10.0.0.0/8 0.0.0.0/0 {ANY} 0/0 2\nx\n")).unwrap();
        let message = rig.write("load", "").unwrap_err().to_string();
        let name = path.display();
        let expected = format!(
            "{name}:2:47: there is no output 2; the number of outputs is 2\n\
             {name}:3:1: expected ‘@’ and the source prefix, not ‘x’"
        );
        assert_eq!(message, expected);
        assert_eq!(rig.read("rules").unwrap(), lines);
        // A file that is about to be written may be empty for a moment.
        for text in ["", "\n# rules\n"] {
            std::fs::write(&path, text).unwrap();
            let message = rig.write("load", &name.to_string()).unwrap_err().to_string();
            assert_eq!(message, format!("{name}: there is no rule in it"));
            assert!(Rig::new(&element, 1, 2).is_err());
        }
        std::fs::write(&path, b"# rules\n@\xff\n").unwrap();
        let message = rig.write("load", "").unwrap_err().to_string();
        assert_eq!(message, format!("{name}:2:2: it is not UTF-8 text"));
        for file in ["/dev/zero", "/", "/no/such/file"] {
            let message = rig.write("load", file).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{file}: ")), "{message}");
        }
        assert_eq!(rig.read("rules").unwrap(), lines);
    }

    #[test]
    fn without_a_file_load_restores_the_inline_rules() {
        let all = format!("@0.0.0.0/0 0.0.0.0/0 {ANY} 0/0");
        let mut rig = Rig::new(&format!("SDNClassifier(RULE \"{all} 0\")"), 1, 2).unwrap();
        let lines = rig.read("rules").unwrap();
        for text in [String::new(), format!("{all} 1\n{all} drop")] {
            rig.write("rules", &text).unwrap();
            assert_ne!(rig.read("rules").unwrap(), lines);
            rig.write("load", "").unwrap();
            assert_eq!(rig.read("rules").unwrap(), lines);
            assert_eq!(lengths(&rig.push(0, &[frame(0, 0)])), [1, 0]);
        }
    }

    #[test]
    fn rules_can_be_added_and_removed() {
        let all = format!("@0.0.0.0/0 0.0.0.0/0 {ANY} 0/0");
        let mut rig =
            Rig::new(&format!("SDNClassifier(RULE \"{all} 0\", CACHE 16)"), 1, 3).unwrap();
        let goes = |rig: &mut Rig| lengths(&rig.push(0, &[frame(0, 0)]));
        assert_eq!(goes(&mut rig), [1, 0, 0]);
        rig.write("insert", &format!("0 {all} 1")).unwrap();
        assert_eq!(goes(&mut rig), [0, 1, 0]);
        rig.write("add", &format!("{all} drop")).unwrap();
        rig.write("replace", &format!("0 {all} 2 # more")).unwrap();
        assert_eq!(goes(&mut rig), [0, 0, 1]);
        rig.write("remove", "0").unwrap();
        assert_eq!(goes(&mut rig), [1, 0, 0]);
        rig.write("remove", "0").unwrap();
        assert_eq!(goes(&mut rig), [0, 0, 0]);
        for (handler, text, message) in [
            ("remove", "1", "there is no rule 1; the number of rules is 1"),
            ("remove", "x", "the first word should be the number of a rule"),
            ("remove", "0 1", "expected nothing after the number of a rule, not ‘1’"),
            ("replace", &format!("1 {all} 1"), "there is no rule 1; the number of rules is 1"),
            (
                "insert",
                &format!("0 {all} 3"),
                "line 1, column 48: there is no output 3; the number of outputs is 3",
            ),
            (
                "add",
                "@1.2.3.4/40",
                "line 1, column 10: ‘40’ is neither a prefix length, 0 to 32, nor a mask",
            ),
            ("rules", "\n y", "line 1, column 1: expected ‘@’ and the source prefix, not ‘y’"),
        ] {
            assert_eq!(rig.write(handler, text).unwrap_err().to_string(), message);
        }
        rig.write("rules", &format!("{all} 2\n{all} 1")).unwrap();
        assert_eq!(goes(&mut rig), [0, 0, 1]);
        assert_eq!(rig.read("rules").unwrap().lines().count(), 2);
        assert!(rig.read("memory").unwrap().parse::<usize>().unwrap() > 100);
        assert!(rig.read("build_time").unwrap().parse::<f64>().unwrap() >= 0.0);
        // Many changes, while a thread rebuilds the trees.
        for n in 0..300 {
            rig.write("insert", &format!("{n} @10.0.0.1/32 0.0.0.0/0 {ANY} 0/0 {}", n % 3))
                .unwrap();
            assert_eq!(goes(&mut rig), [1, 0, 0], "{n}");
        }
        assert_eq!(rig.read("rules").unwrap().lines().count(), 302);
    }

    #[test]
    fn cache_hits_and_misses_are_counted() {
        let rule = format!("RULE \"@10.0.0.0/8 0.0.0.0/0 {ANY} 0/0 0\"");
        let mut rig = Rig::new(&format!("SDNClassifier({rule}, CACHE 100)"), 1, 1).unwrap();
        rig.push(0, &[frame(0, 0)]);
        rig.push(0, &[frame(0, 0), frame(1, 4), arp()]);
        let read = |name: &str| rig.read(name).unwrap();
        assert_eq!((read("cache_hits"), read("cache_misses")), ("2".to_owned(), "2".to_owned()));
    }

    #[test]
    fn errors_are_reported() {
        for (arguments, expected) in [
            ("", "there are no rules: FILE or RULE is missing"),
            ("RULE \"@1.2.3.4/8 x\"", "RULE: column 12: ‘x’ is not an IPv4 address"),
            (
                "RULE \"@1.2.3.4/8 1.2.3.4/8 0:1 0:1 0/0 7\"",
                "RULE: there is no output 7; the number of outputs is 2",
            ),
            (
                "RULE \"@1.2.3.4/8 1.2.3.4/8 0:1 0:1 0/0 1\", DEFAULT 2",
                "DEFAULT: there is no output 2; the number of outputs is 2",
            ),
        ] {
            let Err(diagnostics) = Rig::new(&format!("SDNClassifier({arguments})"), 1, 2) else {
                panic!("accepted: {arguments}");
            };
            let messages: Vec<&str> = diagnostics.iter().map(|it| it.message.as_str()).collect();
            assert_eq!(messages, [expected]);
        }
    }

    #[test]
    fn generated_rules_classify_generated_packets() {
        for (kind, fields) in KINDS.iter().zip([Fields::Seven, Fields::Five, Fields::Seven]) {
            let made = rules::RuleSet { fields, ..rules::RuleSet::new(kind, 400) }.make();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("rules");
            std::fs::write(&path, rules::text(&made)).unwrap();
            let element = format!("SDNClassifier({}, DEFAULT 4)", path.display());
            let mut rig = Rig::new(&element, 1, 5).unwrap();
            let headers = Trace { misses: 20, ..Trace::new(400) }.make(&made);
            let mut expected = [0; 5];
            let mut packets = Vec::new();
            for (at, &header) in headers.iter().enumerate() {
                let frame = Frame { header, vlans: &[7][..at % 2], options: 0, payload: b"x" };
                let first = rules::first_match(&made, &header);
                expected[first.map_or(4, |rule| usize::from(made[rule].action))] += 1;
                packets.push(frame.bytes());
            }
            assert_eq!(lengths(&rig.push(0, &packets)), expected);
        }
    }

    /// The fast path and the path for GPUs read the same fields, whichever headers are set.
    #[test]
    fn fields_do_not_depend_on_where_a_packet_begins() {
        let made = rules::RuleSet { fields: Fields::Seven, ..rules::RuleSet::new(&KINDS[0], 50) };
        let headers = Trace::new(2000).make(&made.make());
        let mut random = fastrand::Rng::with_seed(1);
        for header in headers {
            let vlans = [&[][..], &[], &[7], &[100, 7]][random.usize(..4)];
            let mut bytes = Frame { header, vlans, options: random.u8(..3), payload: b"x" }.bytes();
            match random.u8(..3) {
                0 => bytes.truncate(random.usize(..=bytes.len())),
                1 => bytes[random.usize(12..40)] = random.u8(..),
                _ => {}
            }
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            assert_eq!(key_of(&packet), key_by_layers(&packet), "{bytes:02x?}");
            assert_eq!(key_of(&packet), Key::of_frame(&bytes));
            if random.bool() {
                packet.set_mac_header(0);
            }
            if random.bool() {
                packet.set_network_header(random.choice([0, 4, 14, 18, 22, 30]).unwrap(), 20);
            }
            if random.bool() {
                let _ = packet.strip(random.choice([14, 18, 40]).unwrap());
            }
            assert_eq!(key_of(&packet), key_by_layers(&packet), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_packet_that_begins_at_its_ip_header_is_read() {
        let rule = format!("@0.0.0.0/0 10.1.2.3/32 {ANY} 0/0");
        let set = RuleSet::parse(&format!("{rule} 0\n{rule} eth_dst=2:0:0:0:0:2 1")).unwrap();
        let mut bare = Packet::from_bytes(&frame(0, 0)[14..]).unwrap();
        bare.set_network_header(0, 20);
        assert_eq!(set.first_match(&key_of(&bare)), Some(0));
        assert!(!key_of(&bare).has(Key::ETHERNET));
        let mut stripped = Packet::from_bytes(&frame(0, 0)).unwrap();
        stripped.set_mac_header(0);
        stripped.set_network_header(14, 20);
        assert!(stripped.strip(14));
        assert_eq!(key_of(&stripped), Key::of_frame(&frame(0, 0)));
    }

    #[test]
    fn no_packet_causes_a_panic() {
        let rule = "RULE \"@10.0.0.0/9 10.1.2.2/31 0 : 65535 53 : 53 0x11/0xff 1\"";
        withstands(&format!("SDNClassifier({rule}, DEFAULT 0, CACHE 4)"), 2);
    }
}
