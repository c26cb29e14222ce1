//! What attackers and unusual hosts do: nothing gets past the elements, no byte is lost, memory is bounded.

use millrace_core::Phase;
use millrace_core::headers::Ipv4Header;

use super::*;

/// Two hosts whose handshake has passed.
struct Pair {
    between: Between,
    client: Host,
    server: Host,
}

impl Pair {
    fn new(between: Between, six: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let mut hosts = [0, 1].map(|n| Host::new(n, &mut random, vec![b'.'; 4]));
        for host in &mut hosts {
            (host.six, host.window, host.scale) = (six, 60_000, 0);
        }
        let [client, server] = hosts;
        let mut pair = Self { between, client, server };
        let syn = pair.client.segment(0, 1);
        let syn = pair.through(0, syn);
        pair.server.receive(&syn[0]);
        let answer = pair.server.segment(0, 1);
        let last = pair.through(1, answer);
        let last = pair.client.receive(&last[0]).unwrap();
        let last = pair.through(0, last);
        pair.server.receive(&last[0]);
        pair
    }

    fn through(&mut self, n: usize, packet: Packet) -> Vec<Packet> {
        self.between.feeds[n].give(vec![packet]);
        self.between.pass(1);
        self.between.catches[n].take()
    }

    /// Sends what the client makes of a header at this position; returns the payloads that come out.
    fn send(&mut self, at: u64, edit: impl FnOnce(&mut TcpHeader), payload: &[u8]) -> Vec<Vec<u8>> {
        let packet = self.segment(at, edit, payload);
        let (from, to) = (self.client.address, self.client.peer.0);
        let out = self.through(0, packet);
        out.iter().map(|packet| unwrap(packet, from, to).1).collect()
    }

    fn segment(&self, at: u64, edit: impl FnOnce(&mut TcpHeader), payload: &[u8]) -> Packet {
        let host = &self.client;
        let first = host.first.wrapping_add(at as u32);
        let mut tcp = TcpHeader::new(host.port, host.peer.1, first, 60_000);
        tcp.ack = true;
        tcp.acknowledgment_number = host.theirs.unwrap().wrapping_add(host.wants() as u32);
        edit(&mut tcp);
        wrap(host.six, tcp, host.address, host.peer.0, payload)
    }
}

const MASK: &str = "WordMatcher(MODE MASK, ALL true, WORD abc)";

#[test]
fn a_reset_that_the_receiver_does_not_believe_hides_nothing() {
    for six in [false, true] {
        // Even if what is not followed passes.
        let mut pair = Pair::new(Between::new("HOLD 3600, UNTRACKED PASS", MASK, ""), six);
        assert_eq!(pair.send(1, |_| (), b"..").concat(), b"..");
        for at in [0, 100, 5_000, 500_000] {
            let out = pair.send(at, |tcp| tcp.rst = true, b"");
            assert_eq!(out.len(), 1, "the receiver decides");
            pair.between.pass(5000);
        }
        assert_eq!(pair.send(3, |_| (), b"abc").concat(), b"***");
        assert_eq!(pair.between.read("up.untracked"), 0);
        // One that it believes ends the connection.
        pair.send(6, |tcp| tcp.rst = true, b"");
        pair.between.pass(5000);
        assert_eq!(pair.between.read("m0.count") + pair.between.read("m1.count"), 0);
        pair.between.assert_balanced();
    }
}

#[test]
fn a_new_syn_begins_when_it_is_answered() {
    let mut pair = Pair::new(Between::new("HOLD 3600", MASK, ""), false);
    assert_eq!(pair.send(1, |_| (), b"..").concat(), b"..");
    // Half of a word, a SYN at the place of the next byte, the other half.
    let half = pair.send(3, |_| (), b"ab").concat();
    assert_eq!(half, b"", "held back");
    let syn = |tcp: &mut TcpHeader| (tcp.syn, tcp.ack) = (true, false);
    assert_eq!(pair.send(4, syn, b"bytes"), [b""], "it knocks, without bytes");
    assert_eq!(pair.send(5, |_| (), b"c").concat(), b"***");
    // The server answers another one: it has begun anew.
    assert_eq!(pair.send(90_000, syn, b"").len(), 1);
    pair.client.first = pair.client.first.wrapping_add(90_000);
    (pair.server.first, pair.server.next) = (4242, 0);
    pair.server.theirs = Some(pair.client.first);
    let answer = pair.server.segment(0, 1);
    assert_eq!(pair.through(1, answer).len(), 1);
    pair.client.theirs = Some(4242);
    assert_eq!(pair.send(1, |_| (), b"c, abc").concat(), b"c, ***");
    pair.between.assert_balanced();
}

#[test]
fn bytes_of_connections_that_were_not_seen_to_begin_do_not_pass() {
    for (policy, count) in [("DROP", 0), ("PASS", 4)] {
        let arguments = format!("HOLD 3600, UNTRACKED {policy}");
        let mut pair = Pair::new(Between::new(&arguments, MASK, ""), false);
        let mut out = pair.send(1, |tcp| tcp.source_port = 99, b"abc").len();
        // The SYN that it answers was not seen.
        out += pair.send(1, |tcp| (tcp.source_port, tcp.syn) = (98, true), b"").len();
        // One host speaks for the other, from its own side.
        let packet = pair.server.segment(1, 5);
        out += pair.through(0, packet).len();
        let fragment = Datagram { more_fragments: true, ..Datagram::tcp(b"abc") }.packet();
        out += pair.through(0, fragment).len();
        assert_eq!(out, count, "{policy}");
        assert_eq!(pair.between.read("up.untracked"), 4);
        // A reset brings no bytes.
        assert_eq!(pair.send(1, |tcp| (tcp.source_port, tcp.rst) = (99, true), b"").len(), 1);
        // A SYN that nobody has answered is not followed by bytes, nor are there ones without acknowledgments.
        let syn = |tcp: &mut TcpHeader| (tcp.source_port, tcp.syn, tcp.ack) = (97, true, false);
        assert_eq!(pair.send(0, syn, b"").len(), 1);
        assert_eq!(pair.send(1, |tcp| tcp.source_port = 97, b"abc").len(), 0);
        assert_eq!(pair.send(1, |tcp| tcp.ack = false, b"abc").len(), 0);
        pair.between.assert_balanced();
    }
}

#[test]
fn a_flood_of_syns_keeps_nobody_out() {
    let mut between = Between::new("HOLD 3600", MASK, "");
    let syn = |n: u32| {
        let mut tcp = TcpHeader::new((n % 60_000) as u16 + 1, 80, n, 1000);
        tcp.syn = true;
        let [_, a, b, _] = n.to_be_bytes();
        wrap(n % 2 == 1, tcp, [10, 1, a, b], [10, 0, 0, 2], b"")
    };
    for flood in 0..4 {
        let packets = (0..1000).map(|n| syn(flood * 1000 + n)).collect();
        between.feeds[0].give(packets);
        between.pass(10);
    }
    assert_eq!(between.catches[0].take().len(), 4000);
    assert_eq!(between.read("m0.refused"), 0);
    let data = [b"an abc".to_vec(), b"abc, too".to_vec()];
    let received = converse(&mut between, data, 5, 0);
    assert_eq!(received, [b"***, too".to_vec(), b"an ***".to_vec()]);
    assert_eq!(between.read("m0.count"), 1024);
    between.pass(25_000);
    assert_eq!(between.read("m0.count"), 0, "they end soon");
}

#[test]
fn a_segment_may_grow_beyond_a_packet() {
    let long = "0123456789".repeat(5000);
    let matcher = format!("WordMatcher(MODE FULL, MSG {long}, ALL true, WORD abc)");
    let mut pair = Pair::new(Between::new("HOLD 3600", &matcher, ""), false);
    let out = pair.send(1, |_| (), b"abc abc");
    assert!(out.len() > 10);
    assert!(out.concat() == format!("{long} {long}").into_bytes(), "{} bytes", out.concat().len());
    // What the receiver lacks is sent again.
    let again = pair.send(1, |_| (), b"abc abc").concat();
    assert!(again == format!("{long} {long}").into_bytes(), "{} bytes", again.len());
    // More than 16 MiB close the connection.
    let out = pair.send(8, |_| (), &b"abc".repeat(400));
    assert!(out.concat().len() <= 1 && pair.between.read("out0.closed") == 1);
    pair.between.assert_balanced();
}

#[test]
fn segments_that_grow_leave_in_as_few_packets_as_possible() {
    for six in [false, true] {
        let matcher = "WordMatcher(MODE FULL, MSG longer, ALL true, WORD abc)";
        let mut pair = Pair::new(Between::new("HOLD 3600", matcher, ""), six);
        let payload = [&b"abc"[..], &[b'.'; 597]].concat();
        let segments = (0..20_u16).map(|n| {
            let mut packet = pair.segment(1 + 600 * u64::from(n), |_| (), &payload);
            if !six {
                packet.data_mut()[4..6]
                    .copy_from_slice(&(0xfff8 + u32::from(n)).to_be_bytes()[2..]);
                Ipv4Header::fill_checksum(packet.data_mut());
            }
            packet
        });
        pair.between.feeds[0].give(segments.collect());
        pair.between.pass(1);
        let out = pair.between.catches[0].take();
        let (from, to) = (pair.client.address, pair.client.peer.0);
        let parts: Vec<_> = out.iter().map(|packet| unwrap(packet, from, to)).collect();
        let bytes: Vec<u8> = parts.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        assert!(bytes == [&b"longer"[..], &[b'.'; 597]].concat().repeat(20));
        let longest = parts[0].1.len();
        assert_eq!(out.len(), bytes.len().div_ceil(longest));
        for (n, (tcp, _)) in parts.iter().enumerate() {
            let ahead = tcp.sequence_number.wrapping_sub(parts[0].0.sequence_number);
            assert_eq!(ahead as usize, n * longest);
        }
        // They can be merged again, and no fragments of two of them be mixed up.
        let id = |packet: &Packet| u16::from_be_bytes([packet.data()[4], packet.data()[5]]);
        for (n, packet) in out.iter().enumerate().filter(|_| !six) {
            assert_eq!(id(packet), 0xfff8_u16.wrapping_add(n as u16));
        }
        let next = pair.segment(1 + 600 * 20, |_| (), b"..");
        let before = id(&next);
        let next = pair.through(0, next);
        assert!(six || id(&next[0]) == before + out.len() as u16 - 20);
        pair.between.assert_balanced();
    }
}

#[test]
fn packets_that_wait_count_with_their_buffers() {
    let mut pair = Pair::new(Between::new("HOLD 3600, BUFFER 100000", MASK, ""), false);
    for n in 0..500 {
        pair.send(3 + 2 * n, |_| (), b"x");
    }
    let waiting = pair.between.read("up.waiting");
    assert!((10..100).contains(&waiting), "{waiting}");
    let bytes = pair.between.read("up.bytes");
    assert!((20_000..=110_000).contains(&bytes), "{bytes}");
    // So do bytes that elements hold back.
    let mut pair = Pair::new(Between::new("HOLD 3600", "HTTPIn -> HTTPOut", ""), false);
    let head = [&b"GET / HTTP/1.1\r\nA: "[..], &[b'a'; 10_000]].concat();
    assert_eq!(pair.send(1, |_| (), &head).concat(), b"");
    assert!(pair.between.read("up.bytes") >= 10_000);
}

#[test]
fn many_requests_in_one_segment_cost_no_more_than_their_bytes() {
    let mut pair = Pair::new(Between::new("HOLD 3600", "HTTPIn -> HTTPOut", ""), false);
    let requests = b"GET / HTTP/1.1\r\n\r\n".repeat(2500);
    let segment = pair.segment(1, |_| (), &requests);
    let out = pair.through(0, segment);
    let largest = out.iter().map(|one| one.headroom() + one.len() + one.tailroom()).max();
    assert!(out.len() >= 2500 && largest.is_some_and(|bytes| bytes < 4096), "{largest:?}");
    let (from, to) = (pair.client.address, pair.client.peer.0);
    let bytes: Vec<u8> = out.iter().flat_map(|one| unwrap(one, from, to).1).collect();
    assert!(bytes == requests);
}

#[test]
fn hosts_of_http_1_0_get_no_chunks() {
    let elements = "HTTPIn -> WordMatcher(MODE FULL, MSG longer, ALL true, WORD abc) -> HTTPOut";
    let mut between = Between::new("HOLD 3600", elements, "");
    let requests = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".repeat(2);
    let answers = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 200 OK\r\nContent-Type: a;\r\n  b=c\r\nContent-Length: 3\r\n\r\nabc";
    let received = converse(&mut between, [requests, answers.to_vec()], 3, 10);
    assert_eq!(String::from_utf8_lossy(&received[1]), "GET / HTTP/1.0\r\n\r\n".repeat(2));
    let expected = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 6\r\n\r\nlonger\
        HTTP/1.0 200 OK\r\nContent-Type: a; b=c\r\n\r\nlonger";
    assert_eq!(String::from_utf8_lossy(&received[0]), expected);
}

#[test]
fn a_hot_swap_keeps_the_streams() {
    let mut pair = Pair::new(Between::new("HOLD 3600", MASK, ""), false);
    assert_eq!(pair.send(1, |_| (), b"..ab").concat(), b"..");
    // A segment that waits comes over, too.
    assert_eq!(pair.send(6, |_| (), b"..abc").concat().len(), 1, "a byte that asks");
    let next = pair.segment(5, |_| (), b"c");
    let Pair { between: old, client, .. } = pair;
    let new = Between::beside(Some(&old), "HOLD 600", MASK, "");
    new.feeds[0].give(vec![next]);
    let catch = new.catches[0].clone();
    let (tell, told) = std::sync::mpsc::channel();
    old.engine.router().replace(new.engine, move |swapped| {
        let mut out: Vec<Packet> = Vec::new();
        for _ in 0..1000 {
            out.extend(catch.take());
            if out.len() >= 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        swapped.router.enter(Phase::Halted);
        let payload = |packet: &Packet| unwrap(packet, client.address, client.peer.0).1;
        tell.send(out.iter().flat_map(payload).collect::<Vec<u8>>()).unwrap();
    });
    old.engine.run();
    let bytes = told.recv().unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), "***..***");
}
