//! Tests of rewriters: against a simple model, with hostile packets, and with many mappings.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use millrace_core::testing::Rig;
use millrace_core::{Packet, Reason};
use proptest::prelude::*;

use super::mappings::flow_set::{FlowSet, Policy, Timeouts, Wanted};
use crate::flows::key::{FlowId, Key};
use crate::test_packets::ip::{Datagram, has_right_transport_checksum, read, withstands};

type End = (Ipv4Addr, u16);

/// A datagram between two endpoints, with all checksums computed from scratch.
fn datagram(tcp: bool, from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let ip =
        Datagram { source: from.0, destination: to.0, ..Datagram::of(if tcp { 6 } else { 17 }) };
    let plain = etherparse::Ipv4Header::from_slice(&ip.bytes()).unwrap().0;
    let header = if tcp {
        let mut header = etherparse::TcpHeader::new(from.1, to.1, 77, 1000);
        header.checksum = header.calc_checksum_ipv4(&plain, payload).unwrap();
        header.to_bytes().to_vec()
    } else {
        let header = etherparse::UdpHeader::with_ipv4_checksum(from.1, to.1, &plain, payload);
        header.unwrap().to_bytes().to_vec()
    };
    Datagram { payload: [&header, payload].concat(), ..ip }.bytes()
}

fn packet(bytes: &[u8]) -> Packet {
    let mut packet = Packet::from_bytes(bytes).unwrap();
    packet.set_network_header(0, 20);
    packet
}

/// A straightforward translator.
#[derive(Default)]
struct Model {
    mappings: HashMap<(bool, End, End), (End, End, usize)>,
    next: u16,
    failures: usize,
}

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(7, 0, 0, 1);
const PORTS: std::ops::RangeInclusive<u16> = 1000..=1003;

impl Model {
    /// The new endpoints of a packet, and its output.
    fn rewrite(
        &mut self,
        tcp: bool,
        from: End,
        to: End,
        input: usize,
    ) -> Option<(End, End, usize)> {
        if let Some(known) = self.mappings.get(&(tcp, from, to)) {
            return Some(*known);
        }
        if input == 1 {
            return None;
        }
        for count in 0..4 {
            let port = PORTS.start() + (self.next + count) % 4;
            let source = (OUTSIDE, port);
            if !self.mappings.contains_key(&(tcp, to, source)) {
                self.next = (self.next + count) % 4 + 1;
                self.mappings.insert((tcp, from, to), (source, to, 0));
                self.mappings.insert((tcp, to, source), (to, from, 1));
                return Some((source, to, 0));
            }
        }
        self.failures += 1;
        None
    }
}

fn end() -> impl Strategy<Value = End> {
    let address =
        prop_oneof![(2u8..5).prop_map(|host| Ipv4Addr::new(10, 0, 0, host)), Just(OUTSIDE),];
    (address, prop_oneof![Just(80u16), 1000u16..1004])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn packets_match_the_model(
        packets in prop::collection::vec(
            (any::<bool>(), end(), end(), 0usize..2, prop::collection::vec(any::<u8>(), 0..20)),
            1..60,
        ),
        burst in 1usize..8,
    ) {
        let mut rig = Rig::new("IPRewriter(pattern 7.0.0.1 1000-1003# - - 0 1, drop)", 2, 2).unwrap();
        let mut model = Model::default();
        // All packets of a burst arrive at one input.
        for burst in packets.chunks(burst) {
            let input = burst[0].3;
            let mut expected = vec![Vec::new(), Vec::new()];
            let mut given = Vec::new();
            for (tcp, from, to, _, payload) in burst {
                given.push(packet(&datagram(*tcp, *from, *to, payload)));
                // A flow to itself is a special case; see the conform tests.
                if from == to {
                    given.pop();
                    continue;
                }
                if let Some((from, to, output)) = model.rewrite(*tcp, *from, *to, input) {
                    expected[output].push(datagram(*tcp, from, to, payload));
                }
            }
            let out = rig.push_packets(input, given);
            let out: Vec<Vec<_>> =
                out.iter().map(|port| port.iter().map(|packet| packet.data().to_vec()).collect()).collect();
            prop_assert_eq!(out, expected);
        }
        prop_assert_eq!(rig.read("mapping_failures").unwrap(), model.failures.to_string());
        prop_assert!(rig.stats().balanced());
    }

    #[test]
    fn checksums_stay_correct(
        tcp: bool, source: u32, sport in 1u16.., destination: u32, dport in 1u16.., payload: Vec<u8>,
    ) {
        let mut rig = Rig::new("IPRewriter(pattern 7.255.0.1 5-65535# 9.0.254.3 1 0 0)", 1, 1).unwrap();
        let bytes = datagram(tcp, (source.into(), sport), (destination.into(), dport), &payload);
        let out = rig.push_packets(0, vec![packet(&bytes)]);
        read(out[0][0].data());
        prop_assert!(has_right_transport_checksum(out[0][0].data()));
        if let Ok(mut rig) = Rig::new("IPAddrPairRewriter(pattern 255.255.255.1 0.0.0.9 0 0)", 1, 1) {
            let out = rig.push_packets(0, vec![packet(&bytes)]);
            prop_assert!(has_right_transport_checksum(out[0][0].data()));
        }
    }
}

#[test]
fn rewriters_withstand_hostile_packets() {
    withstands("IPRewriter(pattern 7.0.0.1 1000-1003 - - 0 0, MAPPING_CAPACITY 40)", 1);
    withstands("TCPRewriter(keep 0 0, REPLY_ANNO 3)", 1);
    withstands("UDPRewriter(pattern - 5-9? 7.0.0.1 - 0 0, GUARANTEE 0, CAPACITY 3)", 1);
    withstands("IPAddrRewriter(pattern 7.0.0.0/29 - 0 0)", 1);
    withstands("IPAddrPairRewriter(pattern 7.0.0.0/29 1.2.3.4 0 0)", 1);
    withstands("ICMPPingRewriter(pattern 7.0.0.1 1-20 - - 0 0)", 1);
}

#[test]
fn drops_have_reasons() {
    let mut rig = Rig::new("IPRewriter(pattern 7.0.0.1 1000-1001 - - 0 0)", 1, 1).unwrap();
    let udp = |port: u16| Datagram { source: [10, 0, 0, port as u8].into(), ..Datagram::udp(b"x") };
    let fragment = Datagram { fragment_offset: 4, ..udp(1) };
    let short = Datagram { payload: vec![0; 7], ..udp(1) };
    let packets = [udp(1), udp(2), udp(3), fragment, Datagram::of(47), short];
    let mut packets: Vec<Packet> = packets.iter().map(Datagram::packet).collect();
    packets.push(Packet::from_bytes(b"unmarked").unwrap());
    assert_eq!(rig.push_packets(0, packets)[0].len(), 2);
    let mut drops = rig.stats().drops;
    drops.sort_by_key(|(reason, _)| reason.name());
    assert_eq!(
        drops,
        [
            (Reason::Fragment, 1),
            (Reason::NoHeader, 1),
            (Reason::TableFull, 1),
            (Reason::Truncated, 2),
        ]
    );
}

/// A set with one map.
fn set(capacity: i32) -> (FlowSet, u32) {
    let set = FlowSet::new(capacity);
    let policy = Policy { guarantee: 10, timeouts: Timeouts::Plain(1000) };
    let map = set.lock().add_map(policy, 1);
    (set, map)
}

fn wanted(map: u32, number: u32) -> Wanted {
    let from = FlowId::new((0x0a00_0000 | number >> 8, number as u16), (0x0909_0909, 80));
    Wanted {
        map,
        from,
        to: from.with_source(0x0700_0000 | number >> 8),
        outputs: [0, 1],
        input: 0,
        protocol: 17,
        anno: 0,
        deltas: (1, 2),
    }
}

#[test]
fn a_million_mappings_take_less_than_256_bytes_each() {
    const MILLION: u32 = 1_000_000;
    let (set, map) = set(i32::MAX);
    for number in 0..MILLION {
        assert!(set.lock().add(&wanted(map, number), 0).is_some());
    }
    assert_eq!(set.lock().len(), MILLION as usize);
    let memory = set.memory();
    assert!(memory < 256 * MILLION as usize, "{} bytes a mapping", memory / MILLION as usize);
    let index = set.table.index();
    for number in (0..MILLION).step_by(7) {
        let Wanted { from, to, .. } = wanted(map, number);
        for (flow, reply, becomes) in [(from, false, to), (to.reversed(), true, from.reversed())] {
            let key = Key { flow, space: map };
            let found = index.probe(index.hash(key)).and_then(|found| set.table.view(found, key));
            let view = found.or_else(|| set.table.find(key)).unwrap();
            assert_eq!((view.to, view.found.reply), (becomes, reply));
        }
    }
    set.lock().clear();
    assert_eq!(set.lock().len(), 0);
    assert!(set.table.find(Key { flow: wanted(map, 5).from, space: map }).is_none());
}

#[test]
fn the_mapping_that_expires_first_is_evicted() {
    let (set, map) = set(100);
    let mut touched: HashMap<u32, u64> = HashMap::new();
    let mut random = fastrand::Rng::with_seed(5);
    for number in 0..3000u32 {
        let now = u64::from(number) * 2;
        // Some packets of known flows.
        for _ in 0..3 {
            let other = random.u32(number.saturating_sub(150)..=number);
            let key = Key { flow: wanted(map, other).from, space: map };
            if let Some(view) = set.table.find(key) {
                view.record.touched.store(now, std::sync::atomic::Ordering::Relaxed);
                touched.insert(other, now);
            }
        }
        assert!(set.lock().add(&wanted(map, number), now).is_some());
        touched.insert(number, now);
        if touched.len() > 100 {
            let goes = touched.iter().filter(|(_, at)| **at + 10 <= now).min_by_key(|(_, at)| **at);
            let (&first, &at) = goes.unwrap();
            let gone = touched
                .keys()
                .filter(|number| !set.lock().contains(map, wanted(map, **number).from));
            let gone: Vec<u32> = gone.copied().collect();
            assert_eq!(gone.len(), 1);
            assert_eq!(touched[&gone[0]], at, "{first} and {gone:?}");
            touched.remove(&gone[0]);
        }
    }
}

/// Flows to one server that all become the same flow: each one replaces the mapping of the one before.
#[test]
fn flows_that_replace_each_other_use_no_more_memory() {
    let (set, map) = set(i32::MAX);
    let anew = |number| Wanted { to: wanted(map, 0).to, ..wanted(map, number) };
    for number in 0..100 {
        set.lock().add(&anew(number), 0);
    }
    let before = set.memory();
    for number in 100..100_000 {
        assert!(set.lock().add(&anew(number), 0).is_some());
    }
    assert_eq!(set.lock().len(), 1);
    assert!(set.memory() <= 2 * before, "{} bytes, before {before}", set.memory());
}
