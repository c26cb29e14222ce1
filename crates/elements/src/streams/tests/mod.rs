//! Two hosts with a path of streams between them, over links that lose, repeat and disorder packets, on virtual time.

mod faults;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv6Addr;
use std::sync::Arc;

use etherparse::{TcpHeader, TcpOptionElement};
use millrace_core::run::{Engine, Options, check, initialize, initialize_beside};
use millrace_core::testing::{CATCH, Catch, FEED, Feed};
use millrace_core::{Packet, Registry, Timestamp, clock::Clock};
use millrace_lang::SourceMap;
use proptest::prelude::*;

use crate::test_packets::ip::{Datagram, read};
use crate::test_packets::ip6;

/// The elements of `up` and `down` between two hosts.
struct Between {
    engine: Engine,
    feeds: [Arc<Feed>; 2],
    catches: [Arc<Catch>; 2],
}

impl Between {
    fn new(arguments: &str, elements: &str, out: &str) -> Self {
        Self::beside(None, arguments, elements, out)
    }

    /// One that replaces a running one.
    fn beside(before: Option<&Self>, arguments: &str, elements: &str, out: &str) -> Self {
        let path = |n: usize, name: &str, back: &str| {
            format!(
                "feed{n} :: TestFeed -> m{n} :: CTXManager(VERBOSE 0, CAPACITY 1024)
                    -> {name} :: TCPIn({back}, {arguments}) -> {elements}
                    -> out{n} :: TCPOut({out}) -> catch{n} :: TestCatch;\n"
            )
        };
        let text = path(0, "up", "down") + &path(1, "down", "up");
        let mut map = SourceMap::default();
        let source = map.add("test", &*text);
        let options = millrace_lang::Options::default();
        let (graph, found) = millrace_lang::compile(&mut map, source, &options);
        assert!(found.is_empty(), "{found:?}");
        let mut registry = Registry::linked();
        registry.add(FEED);
        registry.add(CATCH);
        let options = Options { clock: Clock::virtual_(), ..Options::default() };
        let (router, found) = check(&graph, &registry, options);
        let router = router.unwrap_or_else(|| panic!("{found:?}"));
        let engine = match before {
            None => initialize(router, 1).unwrap(),
            Some(old) => initialize_beside(router, 1, old.engine.router()).unwrap(),
        };
        let router = engine.router().clone();
        let feed = |n| router.element(router.find(&format!("feed{n}")).unwrap()).unwrap();
        let catch = |n| router.element(router.find(&format!("catch{n}")).unwrap()).unwrap();
        Self { feeds: [feed(0), feed(1)], catches: [catch(0), catch(1)], engine }
    }

    fn read(&self, handler: &str) -> u64 {
        let (element, handler) = handler.split_once('.').unwrap();
        let router = self.engine.router();
        let text = router.read_of(router.find(element).unwrap(), handler, b"").unwrap();
        String::from_utf8(text).unwrap().trim().parse().unwrap()
    }

    /// Lets time pass.
    fn pass(&mut self, millis: i64) {
        let until = self.engine.router().clock().now() + Timestamp::from_millis(millis);
        self.engine.run_until(until);
    }

    /// Every packet is accounted for.
    fn assert_balanced(&self) {
        let router = self.engine.router();
        for id in 0..router.len() {
            assert!(router.stats_of(id).balanced(), "{}", router.name_of(id));
        }
    }
}

/// A packet with a segment, between two addresses of IPv4, or ones of IPv6 that end like them.
fn wrap(six: bool, mut tcp: TcpHeader, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Packet {
    if six {
        let (source, destination) = (wide(from), wide(to));
        let ends = (source.octets(), destination.octets());
        tcp.checksum = tcp.calc_checksum_ipv6_raw(ends.0, ends.1, payload).unwrap();
        // Behind a header with options of the destination.
        let options = [6, 0, 1, 4, 0, 0, 0, 0];
        let payload = [&options[..], &tcp.to_bytes(), payload].concat();
        let default = ip6::Datagram::default();
        return ip6::Datagram { source, destination, next_header: 60, payload, ..default }.packet();
    }
    tcp.checksum = tcp.calc_checksum_ipv4_raw(from, to, payload).unwrap();
    let payload = [&tcp.to_bytes()[..], payload].concat();
    Datagram { source: from.into(), destination: to.into(), payload, ..Datagram::of(6) }.packet()
}

fn wide(address: [u8; 4]) -> Ipv6Addr {
    let [.., last] = address;
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())
}

/// The segment in a packet from one address to another; lengths and checksums are right.
fn unwrap(packet: &Packet, from: [u8; 4], to: [u8; 4]) -> (TcpHeader, Vec<u8>) {
    if packet.data()[0] >> 4 == 6 {
        let (ip, rest) = etherparse::Ipv6Header::from_slice(packet.data()).unwrap();
        assert_eq!(usize::from(ip.payload_length), rest.len());
        assert_eq!((ip.source, ip.destination), (wide(from).octets(), wide(to).octets()));
        let rest = if ip.next_header.0 == 60 { &rest[8..] } else { rest };
        let (tcp, payload) = TcpHeader::from_slice(rest).unwrap();
        let sum = tcp.calc_checksum_ipv6_raw(ip.source, ip.destination, payload).unwrap();
        assert_eq!(tcp.checksum, sum, "{tcp:?}");
        return (tcp, payload.to_vec());
    }
    let (ip, bytes) = read(packet.data());
    assert_eq!((ip.source, ip.destination), (from, to));
    let (tcp, payload) = TcpHeader::from_slice(&bytes).unwrap();
    let sum = tcp.calc_checksum_ipv4_raw(ip.source, ip.destination, payload).unwrap();
    assert_eq!(tcp.checksum, sum, "{tcp:?}");
    (tcp, payload.to_vec())
}

/// A host at one end of a connection.
struct Host {
    /// Whether it speaks IPv6.
    six: bool,
    address: [u8; 4],
    port: u16,
    peer: ([u8; 4], u16),
    first: u32,
    data: Vec<u8>,
    /// Positions count from the SYN.
    acknowledged: u64,
    next: u64,
    /// The position before which the other one has room.
    edge: u64,
    theirs: Option<u32>,
    received: Vec<u8>,
    /// Bytes after a gap.
    early: BTreeMap<u64, u8>,
    their_fin: Option<u64>,
    window: u16,
    scale: u8,
    their_scale: u8,
    segment_size: u16,
    clock: u32,
    echo: u32,
    idle: u32,
}

impl Host {
    fn new(n: u8, random: &mut fastrand::Rng, data: Vec<u8>) -> Self {
        let ends = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80)];
        Self {
            six: false,
            address: ends[usize::from(n)].0,
            port: ends[usize::from(n)].1,
            peer: ends[1 - usize::from(n)],
            // Often near the end of the numbers.
            first: random.choice([u32::MAX - 700, u32::MAX - 5, 0, 77_777]).unwrap(),
            data,
            acknowledged: 0,
            next: 0,
            edge: 1,
            theirs: None,
            received: Vec::new(),
            early: BTreeMap::new(),
            their_fin: None,
            window: random.u16(300..4000),
            scale: random.u8(0..3),
            their_scale: 0,
            segment_size: random.u16(100..700),
            clock: random.u32(..),
            echo: 0,
            idle: 0,
        }
    }

    /// The position of the FIN.
    fn end(&self) -> u64 {
        1 + self.data.len() as u64
    }

    fn has_all(&self) -> bool {
        self.their_fin.is_some_and(|fin| fin == 1 + self.received.len() as u64)
    }

    fn is_done(&self) -> bool {
        self.acknowledged == self.end() + 1 && self.has_all()
    }

    /// The next position that it wants.
    fn wants(&self) -> u64 {
        1 + self.received.len() as u64 + u64::from(self.has_all())
    }

    /// A segment with the positions `from..to`.
    fn segment(&mut self, from: u64, to: u64) -> Packet {
        self.clock += 1;
        let mut tcp = TcpHeader::new(
            self.port,
            self.peer.1,
            self.first.wrapping_add(from as u32),
            self.window >> self.scale,
        );
        let mut options = vec![TcpOptionElement::Timestamp(self.clock, self.echo)];
        if from == 0 {
            tcp.syn = true;
            tcp.window_size = self.window;
            options.push(TcpOptionElement::MaximumSegmentSize(self.segment_size));
            options.push(TcpOptionElement::WindowScale(self.scale));
            options.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
        }
        if let Some(theirs) = self.theirs {
            tcp.ack = true;
            tcp.acknowledgment_number = theirs.wrapping_add(self.wants() as u32);
            if let Some((&left, _)) = self.early.first_key_value() {
                let mut right = left;
                while self.early.contains_key(&right) {
                    right += 1;
                }
                let block = [left, right].map(|place| theirs.wrapping_add(place as u32));
                let block = (block[0], block[1]);
                options.push(TcpOptionElement::SelectiveAcknowledgement(block, [None; 3]));
            }
        }
        tcp.set_options(&options).unwrap();
        let bytes = from.max(1)..to.min(self.end());
        let payload: Vec<u8> = bytes.map(|place| self.data[place as usize - 1]).collect();
        tcp.fin = from <= self.end() && to > self.end();
        let packet = wrap(self.six, tcp, self.address, self.peer.0, &payload);
        self.next = self.next.max(to);
        packet
    }

    /// What it sends in a while, if anything.
    fn send(&mut self, random: &mut fastrand::Rng) -> Vec<Packet> {
        self.idle += 1;
        if self.next == 0 && (self.theirs.is_some() || self.port != 80) {
            return vec![self.segment(0, 1)];
        }
        let longest = u64::from(self.segment_size);
        let mut sent = Vec::new();
        if self.idle > 40 && self.acknowledged < self.next {
            // Again, with other borders.
            self.idle = 0;
            let from = self.acknowledged;
            let to = if from == 0 { 1 } else { (from + random.u64(1..=longest)).min(self.next) };
            sent.push(self.segment(from, to));
        }
        // From the second segment of the handshake on.
        if self.acknowledged > 0 && self.theirs.is_some() {
            while random.u8(0..3) > 0 && self.next <= self.end() && self.next < self.edge {
                let from = self.next;
                let to = (from + random.u64(1..=longest)).min(self.edge).min(self.end() + 1);
                sent.push(self.segment(from, to));
            }
        }
        sent
    }

    /// A segment that arrives. Returns what it answers.
    fn receive(&mut self, packet: &Packet) -> Option<Packet> {
        let (tcp, payload) = unwrap(packet, self.peer.0, self.address);
        assert!(!tcp.rst);
        for option in tcp.options_iterator().map(Result::unwrap) {
            match option {
                TcpOptionElement::Timestamp(time, _) => self.echo = time,
                TcpOptionElement::WindowScale(scale) => self.their_scale = scale,
                TcpOptionElement::SelectiveAcknowledgement((left, right), _) => {
                    let left = left.wrapping_sub(self.first);
                    let right = right.wrapping_sub(self.first);
                    assert!(left < right && u64::from(right) <= self.next, "{left}..{right}");
                }
                _ => {}
            }
        }
        if tcp.syn {
            self.theirs = Some(tcp.sequence_number);
        }
        let theirs = self.theirs?;
        if tcp.ack {
            let place = u64::from(tcp.acknowledgment_number.wrapping_sub(self.first));
            assert!(place <= self.next, "{place} was never sent");
            if place > self.acknowledged {
                self.acknowledged = place;
                self.idle = 0;
            }
            let scale = if tcp.syn { 0 } else { self.their_scale };
            self.edge = self.edge.max(place + (u64::from(tcp.window_size) << scale));
        }
        let wants = self.wants();
        let ahead = tcp.sequence_number.wrapping_sub(theirs.wrapping_add(wants as u32)) as i32;
        let start = wants as i64 + i64::from(ahead) + i64::from(tcp.syn);
        for (n, byte) in payload.iter().enumerate() {
            let place = start + n as i64;
            if place >= wants as i64 && place < (wants + u64::from(self.window)) as i64 {
                let known = self.early.insert(place as u64, *byte);
                assert!(known.is_none_or(|known| known == *byte), "two bytes at {place}");
            }
        }
        if tcp.fin {
            let fin = (start + payload.len() as i64) as u64;
            assert!(self.their_fin.is_none_or(|known| known == fin), "two ends");
            self.their_fin = Some(fin);
        }
        while let Some(byte) = self.early.remove(&(1 + self.received.len() as u64)) {
            self.received.push(byte);
        }
        let brings = !payload.is_empty() || tcp.fin || tcp.syn && self.next > 0;
        brings.then(|| self.segment(self.next, self.next))
    }
}

/// A link that loses, repeats and disorders packets.
struct Link {
    packets: VecDeque<Packet>,
    /// Out of 100.
    trouble: u8,
}

impl Link {
    fn carry(&mut self, packets: Vec<Packet>, random: &mut fastrand::Rng) -> Vec<Packet> {
        for packet in packets {
            let luck = random.u8(0..100);
            if luck < self.trouble {
                match random.u8(0..3) {
                    0 => {}
                    1 => {
                        self.packets.extend(packet.copy());
                        self.packets.push_back(packet);
                    }
                    _ => {
                        let at = random.usize(0..=self.packets.len());
                        self.packets.insert(at, packet);
                    }
                }
            } else {
                self.packets.push_back(packet);
            }
        }
        let n = random.usize(0..=self.packets.len());
        self.packets.drain(..n).collect()
    }
}

/// Carries data in both directions; returns what arrives.
fn converse(between: &mut Between, data: [Vec<u8>; 2], seed: u64, trouble: u8) -> [Vec<u8>; 2] {
    let mut random = fastrand::Rng::with_seed(seed);
    let [one, other] = data;
    let hosts = [Host::new(0, &mut random, one), Host::new(1, &mut random, other)];
    converse_as(hosts, between, random, seed, trouble)
}

fn converse_as(
    mut hosts: [Host; 2],
    between: &mut Between,
    mut random: fastrand::Rng,
    seed: u64,
    trouble: u8,
) -> [Vec<u8>; 2] {
    let mut links: Vec<Link> = (0..4).map(|_| Link { packets: VecDeque::new(), trouble }).collect();
    let mut answers = [Vec::new(), Vec::new()];
    let mut rounds = 0;
    while !hosts.iter().all(Host::is_done) {
        rounds += 1;
        assert!(rounds < 60_000, "seed {seed} comes to a standstill: {}", {
            let state = |host: &Host| {
                let (done, next, end) = (host.acknowledged, host.next, host.end());
                format!(
                    "{done} of {next} of {end}, edge {}, has {}",
                    host.edge,
                    host.received.len()
                )
            };
            hosts.iter().map(state).collect::<Vec<_>>().join("; ")
        });
        for n in 0..2 {
            let mut sent = std::mem::take(&mut answers[n]);
            sent.extend(hosts[n].send(&mut random));
            between.feeds[n].give(links[n].carry(sent, &mut random));
        }
        between.pass(5);
        for n in 0..2 {
            let out = between.catches[n].take();
            for packet in links[2 + n].carry(out, &mut random) {
                answers[1 - n].extend(hosts[1 - n].receive(&packet));
            }
        }
    }
    between.assert_balanced();
    hosts.map(|host| host.received)
}

/// Text of few letters, so that words are often there and often nearly there.
fn text(random: &mut fastrand::Rng, most: usize) -> Vec<u8> {
    (0..random.usize(0..most)).map(|_| random.choice(*b"abcd.").unwrap()).collect()
}

/// The text with all words replaced, as a loop over its positions finds them.
fn replaced(text: &[u8], words: &[&str], with: impl Fn(&str) -> String) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        match words.iter().find(|word| rest.starts_with(word.as_bytes())) {
            Some(word) => {
                out.extend_from_slice(with(word).as_bytes());
                rest = &rest[word.len()..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn hosts_get_the_replaced_stream(seed in any::<u64>(), trouble in 0_u8..40, mode in 0..4) {
        let words = ["abc", "ab.", "dddd"];
        let (mode, with): (&str, fn(&str) -> String) = match mode {
            0 => ("MASK", |word| "*".repeat(word.len())),
            1 => ("REMOVE", |_| String::new()),
            2 => ("FULL", |_| "a longer text than any word".to_owned()),
            _ => ("REPLACE", |word| "a longer text"[..word.len()].to_owned()),
        };
        let message = if mode == "FULL" { "a longer text than any word" } else { "a longer text" };
        let matcher = format!(
            "WordMatcher(MODE {mode}, MSG \"{message}\", ALL true, WORD abc, WORD ab., WORD dddd)"
        );
        let mut between = Between::new("HOLD 3600", &matcher, "");
        let mut random = fastrand::Rng::with_seed(seed);
        let data = [text(&mut random, 4000), text(&mut random, 4000)];
        let [one, other] = data.clone();
        let mut hosts = [Host::new(0, &mut random, one), Host::new(1, &mut random, other)];
        hosts.iter_mut().for_each(|host| host.six = seed % 2 == 1);
        let received = converse_as(hosts, &mut between, random, seed, trouble);
        for (n, data) in data.iter().enumerate() {
            let expected = replaced(data, &words, with);
            prop_assert!(received[1 - n] == expected, "{}", String::from_utf8_lossy(&received[1 - n]));
        }
        // Everything was acknowledged, so nothing is stored.
        prop_assert_eq!(between.read("up.waiting"), 0);
    }

    #[test]
    fn what_nobody_changes_arrives_as_it_is(seed in any::<u64>(), trouble in 0_u8..40, reads in any::<bool>()) {
        let matcher = "WordMatcher(MODE ALERT, QUIET true, ALL true, WORD abc)";
        let mut between = Between::new("HOLD 0.01", matcher, &format!("READONLY {reads}"));
        let mut random = fastrand::Rng::with_seed(seed);
        let data = [text(&mut random, 4000), text(&mut random, 4000)];
        let received = converse(&mut between, data.clone(), seed, trouble);
        prop_assert!(received[1] == data[0] && received[0] == data[1]);
    }

    #[test]
    fn a_pause_in_a_word_ends(seed in any::<u64>()) {
        // Bytes that wait are let go after a while: with a short HOLD, everybody gets everything.
        let matcher = "WordMatcher(MODE MASK, ALL true, WORD abcdabcdabcd)";
        let mut between = Between::new("HOLD 0.001", matcher, "");
        let mut random = fastrand::Rng::with_seed(seed);
        let data: Vec<u8> = b"abcd".repeat(random.usize(1..40));
        let received = converse(&mut between, [data.clone(), data.clone()], seed, 10);
        prop_assert_eq!(received[0].len(), data.len());
        prop_assert!(received[1].iter().zip(&data).all(|(got, sent)| got == sent || *got == b'*'));
    }

    #[test]
    fn messages_get_their_new_length(seed in any::<u64>(), trouble in 0_u8..30, count in 1_usize..4) {
        let elements = "HTTPIn(NOENC true) -> WordMatcher(MODE FULL, MSG abcabc, ALL true, WORD abc) -> HTTPOut";
        let mut between = Between::new("HOLD 3600", elements, "");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        let (mut asked, mut contents) = (Vec::new(), Vec::new());
        for n in 0..count {
            // Words in heads stay, and requests with content are counted again.
            let content = text(&mut random, 600);
            requests.extend(format!("POST /abc HTTP/1.1\r\nAccept-Encoding: x\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes());
            requests.extend(&content);
            let content = replaced(&content, &["abc"], |_| "abcabc".to_owned());
            let head = if content.is_empty() { "Content-Length: 0".to_owned() } else { format!("Content-Length: {}", content.len()) };
            asked.extend(format!("POST /abc HTTP/1.1\r\n{head}\r\n\r\n").into_bytes());
            asked.extend(&content);
            let content = text(&mut random, 3000);
            contents.push(replaced(&content, &["abc"], |_| "abcabc".to_owned()));
            responses.extend(b"HTTP/1.1 200 abc\r\n");
            if n % 2 == 0 {
                responses.extend(format!("Content-Length: {}\r\n\r\n", content.len()).into_bytes());
                responses.extend(&content);
            } else {
                responses.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for part in content.chunks(random.usize(1..99)) {
                    responses.extend(format!("{:X}\r\n", part.len()).into_bytes());
                    responses.extend([part, b"\r\n"].concat());
                }
                responses.extend(b"0\r\nTrailer: abc\r\n\r\n");
            }
        }
        let received = converse(&mut between, [requests, responses], seed, trouble);
        prop_assert_eq!(String::from_utf8_lossy(&received[1]), String::from_utf8_lossy(&asked));
        let mut rest = &received[0][..];
        for content in &contents {
            rest = rest.strip_prefix(b"HTTP/1.1 200 abc\r\n").unwrap();
            let mut found: Vec<u8> = Vec::new();
            if let Some(after) = rest.strip_prefix(b"Content-Length: 0\r\n\r\n") {
                rest = after;
            } else {
                rest = rest.strip_prefix(b"Transfer-Encoding: chunked\r\n\r\n").unwrap();
                loop {
                    let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
                    let size = std::str::from_utf8(&rest[..line]).unwrap();
                    let size = usize::from_str_radix(size, 16).unwrap();
                    found.extend(&rest[line + 2..line + 2 + size]);
                    rest = rest[line + 2 + size..].strip_prefix(b"\r\n").unwrap();
                    if size == 0 {
                        break;
                    }
                }
            }
            prop_assert!(found == *content);
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn hostile_segments_do_no_harm(seed in any::<u64>()) {
        let elements = "HTTPIn -> WordMatcher(MODE FULL, MSG abcabc, ALL true, WORD abc) -> HTTPOut";
        let mut between = Between::new("BUFFER 5000, MEMORY 8000, HOLD 0.1", elements, "");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut hosts = [0, 1].map(|n| Host::new(n, &mut random, Vec::new()));
        let firsts = hosts.each_ref().map(|host| host.first);
        for _ in 0..400 {
            let n = random.usize(0..2);
            let mut tcp = TcpHeader::new(hosts[n].port, hosts[n].peer.1, 0, random.u16(..));
            let far = |random: &mut fastrand::Rng| match random.u8(0..8) {
                0 => random.u32(..),
                1 => 0_u32.wrapping_sub(random.u32(0..2000)),
                _ => random.u32(0..3000),
            };
            tcp.sequence_number = firsts[n].wrapping_add(far(&mut random));
            tcp.acknowledgment_number = firsts[1 - n].wrapping_add(far(&mut random));
            tcp.syn = random.u8(0..8) == 0;
            if tcp.syn && random.bool() {
                tcp.sequence_number = firsts[n];
            }
            tcp.fin = random.u8(0..12) == 0;
            tcp.rst = random.u8(0..20) == 0;
            tcp.ack = random.u8(0..8) > 0;
            tcp.psh = random.bool();
            let sack = (random.u32(..), random.u32(..));
            let options = [
                TcpOptionElement::WindowScale(random.u8(..)),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
                TcpOptionElement::SelectiveAcknowledgement(sack, [Some(sack), None, None]),
            ];
            tcp.set_options(&options[random.usize(0..2)..random.usize(2..=3)]).unwrap();
            let payload = match random.u8(0..4) {
                0 => Vec::new(),
                1 => b"GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc".to_vec(),
                2 => b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nab".to_vec(),
                _ => text(&mut random, 1400),
            };
            let host = &mut hosts[n];
            tcp.checksum = tcp.calc_checksum_ipv4_raw(host.address, host.peer.0, &payload).unwrap();
            let ip = Datagram {
                source: host.address.into(),
                destination: host.peer.0.into(),
                payload: [&tcp.to_bytes()[..], &payload].concat(),
                ..Datagram::of(6)
            };
            between.feeds[n].give(vec![ip.packet()]);
            between.pass(random.i64(0..30));
            for catch in &between.catches {
                for packet in catch.take() {
                    // Whatever comes out is a segment.
                    let (ip, bytes) = read(packet.data());
                    let (tcp, payload) = TcpHeader::from_slice(&bytes).unwrap();
                    let sum = tcp.calc_checksum_ipv4_raw(ip.source, ip.destination, payload);
                    assert_eq!(tcp.checksum, sum.unwrap());
                }
            }
            for name in ["up", "down"] {
                // The last segment may go beyond the limit.
                let bytes = between.read(&format!("{name}.bytes"));
                prop_assert!(bytes < 8000 + 3 * 6000, "{bytes} bytes");
            }
        }
        between.pass(400_000);
        between.assert_balanced();
        prop_assert_eq!(between.read("m0.count") + between.read("m1.count"), 0);
        // The flows have ended, and what waited with them.
        let left = between.read("up.bytes") + between.read("down.bytes");
        prop_assert_eq!(left, 0);
    }
}

#[test]
fn a_word_in_two_segments_resets_both_sides() {
    let elements = "WordMatcher(MODE CLOSE, WORD abc)";
    let mut between = Between::new("HOLD 0.1", elements, "");
    let mut random = fastrand::Rng::with_seed(1);
    let mut client = Host::new(0, &mut random, b"..ab".iter().chain(b"c...").copied().collect());
    let mut server = Host::new(1, &mut random, b"answer".to_vec());
    (client.segment_size, client.window, server.window) = (4, 4000, 4000);
    let mut through = |n: usize, packet: Packet| {
        between.feeds[n].give(vec![packet]);
        between.pass(1);
        between.catches[n].take()
    };
    let syn = through(0, client.segment(0, 1));
    server.receive(&syn[0]);
    let syn = through(1, server.segment(0, 1));
    let ack = client.receive(&syn[0]).unwrap();
    server.receive(&through(0, ack)[0]);
    let ack = server.receive(&through(0, client.segment(1, 5))[0]).unwrap();
    client.receive(&through(1, ack)[0]);
    assert_eq!(server.received, b"..ab");
    let out = through(0, client.segment(5, 9));
    assert_eq!(out.len(), 2);
    // A byte that the server has, which it answers, and the reset.
    let answer = server.receive(&out[0]).unwrap();
    assert_eq!(server.received, b"..ab");
    let flags = |packet: &Packet| packet.data()[33];
    assert_eq!(flags(&out[1]) & 4, 4);
    let out = through(1, answer);
    assert!(out.iter().any(|packet| flags(packet) & 4 == 4), "{out:?}");
    // What the client still sends brings nothing.
    for packet in through(0, client.segment(5, 9)) {
        assert!(flags(&packet) & 4 == 4 && packet.len() < 80);
    }
}
