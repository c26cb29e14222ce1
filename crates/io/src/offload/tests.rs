//! Tests with frames built by hand. `tests/interfaces` tests sockets on real interfaces.

use millrace_core::Packet;
use millrace_core::checksum;
use proptest::prelude::*;

use super::{Finished, Finisher, HEADER, Link, Offload, Segments, merge};

fn header(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; HEADER] {
    let mut header = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
    for (at, word) in [(4, size), (6, start), (8, offset)] {
        header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
    }
    header
}

#[test]
fn headers_tell_what_is_to_be_done() {
    let segments = |header| Offload::parse(&header).segments;
    assert_eq!(Offload::parse(&[0; 10]), Offload::default());
    assert_eq!(segments(header(0, 1, 1448, 0, 0)), Some(Segments::Of(1448)));
    assert_eq!(segments(header(0, 0x84, 1428, 0, 0)), Some(Segments::Of(1428)));
    assert_eq!(segments(header(0, 5, 1200, 0, 0)), Some(Segments::Of(1200)));
    assert_eq!(segments(header(0, 1, 0, 0, 0)), Some(Segments::Unknown));
    assert_eq!(segments(header(0, 3, 1448, 0, 0)), Some(Segments::Unknown));
    assert!(Offload::parse(&header(1, 0, 0, 34, 16)).lacks_checksum());
}

const IPV4: [u8; 20] = [0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2];

/// An Ethernet frame with an IPv4 header of protocol `protocol` in front of `rest`.
fn ipv4(protocol: u8, tags: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut ip = IPV4;
    ip[9] = protocol;
    ip[2..4].copy_from_slice(&(20 + rest.len() as u16).to_be_bytes());
    let sum = checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[0; 12], tags, &[8, 0], &ip, rest].concat()
}

fn ipv6(protocol: u8, extension: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut ip = [0; 40];
    ip[0] = 0x60;
    ip[4..6].copy_from_slice(&((extension.len() + rest.len()) as u16).to_be_bytes());
    ip[6] = if extension.is_empty() { protocol } else { 0 };
    ip[8..24].copy_from_slice(&[1; 16]);
    ip[24..40].copy_from_slice(&[2; 16]);
    [&[0; 12][..], &[0x86, 0xdd], &ip, extension, rest].concat()
}

/// A TCP header with options, sequence number 2^32 - 100 and the flags CWR, ACK, PSH and FIN.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 32];
    header[4..8].copy_from_slice(&(u32::MAX - 99).to_be_bytes());
    header[12] = 8 << 4;
    header[13] = 0x80 | 0x10 | 0x08 | 0x01;
    [&header, payload].concat()
}

/// Whether all lengths and checksums of a frame are correct, according to etherparse.
fn is_right(frame: &[u8], network: usize, transport: usize, protocol: u8) -> bool {
    let length = frame.len() - transport;
    let pseudo = if frame[network] >> 4 == 4 {
        let ip = &frame[network..network + 20];
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if !checksum::verify(ip) || total != frame.len() - network {
            return false;
        }
        checksum::Sum::of(&ip[12..20]).add_u16(protocol.into()).add_u16(length as u16)
    } else {
        let ip = &frame[network..network + 40];
        let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
        if payload != frame.len() - network - 40 {
            return false;
        }
        checksum::Sum::of(&ip[8..40]).add_u16(protocol.into()).add_u32(length as u32)
    };
    pseudo.add_bytes(&frame[transport..]).is_right()
}

fn cut(frame: &[u8], split: usize, size: usize) -> Option<Vec<Vec<u8>>> {
    let first = Packet::from_bytes(&frame[..split]).unwrap();
    let mut packets = Vec::new();
    let take = |packet: Packet| packets.push(packet.data().to_vec());
    super::cut(Link::Ethernet, &first, &frame[split..], size, take).map(|_| packets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn segments_are_what_the_sender_would_have_sent(
        payload in prop::collection::vec(any::<u8>(), 1..9000),
        size in 1usize..2000,
        split in 100usize..400,
        shape in 0..4,
    ) {
        let segment = tcp(&payload);
        let (frame, network, transport) = match shape {
            0 => (ipv4(6, &[], &segment), 14, 34),
            1 => (ipv4(6, &[0x81, 0, 0, 7], &segment), 18, 38),
            2 => (ipv6(6, &[], &segment), 14, 54),
            _ => (ipv6(6, &[6, 0, 1, 4, 0, 0, 0, 0], &segment), 14, 62),
        };
        // The headers are in the first part always.
        let split = split.max(transport + 32).min(frame.len());
        let packets = cut(&frame, split, size.max(payload.len() / 100)).unwrap();
        let count = packets.len();
        let mut together = Vec::new();
        for (index, packet) in packets.iter().enumerate() {
            prop_assert!(is_right(packet, network, transport, 6));
            let tcp = &packet[transport..];
            let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
            prop_assert_eq!(sequence, (u32::MAX - 99).wrapping_add(together.len() as u32));
            let last = if index + 1 == count { 0x09 } else { 0 };
            prop_assert_eq!(tcp[13], 0x10 | last | if index == 0 { 0x80 } else { 0 });
            if network + 20 == transport {
                let id = u16::from_be_bytes([packet[network + 4], packet[network + 5]]);
                prop_assert_eq!(id, 0xffff_u16.wrapping_add(index as u16));
            }
            together.extend_from_slice(&tcp[32..]);
        }
        prop_assert!(together == payload);
    }

    #[test]
    fn anything_is_cut_without_harm(
        frame in prop::collection::vec(any::<u8>(), 0..200),
        ether_type in prop::sample::select(vec![[8, 0], [0x86, 0xdd], [0x81, 0]]),
        size in 0usize..70,
        start in 0u16..300,
    ) {
        let mut frame = frame;
        if frame.len() > 14 {
            frame[12..14].copy_from_slice(&ether_type);
        }
        cut(&frame, frame.len() / 2, size);
        Offload::parse(&header(1, 0, 0, start, start / 2)).complete(&mut frame);
    }
}

#[test]
fn trains_of_datagrams_are_cut() {
    let payload: Vec<u8> = (0..2500u16).map(|n| n as u8).collect();
    let datagram = [&[0, 7, 0, 9, 0, 0, 0, 0][..], &payload].concat();
    let packets = cut(&ipv4(17, &[], &datagram), 60, 1000).unwrap();
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [1042, 1042, 542]);
    for packet in &packets {
        assert!(is_right(packet, 14, 34, 17));
        assert_eq!(usize::from(u16::from_be_bytes([packet[38], packet[39]])), packet.len() - 34);
    }
    assert_eq!(cut(&ipv4(1, &[], &datagram), 60, 1000), None, "ICMP has no segments");
}

#[test]
fn missing_checksums_are_filled_in() {
    for (protocol, offset, mut rest) in [(6, 16, tcp(b"odd")), (17, 6, vec![0; 11])] {
        let length = rest.len() as u16;
        let addresses = &IPV4[12..20];
        let pseudo = checksum::Sum::of(addresses).add_u16(protocol).add_u16(length);
        // What the kernel leaves there: the sum, not its complement.
        rest[offset..offset + 2].copy_from_slice(&(!pseudo.finish()).to_be_bytes());
        let mut frame = ipv4(protocol as u8, &[], &rest);
        assert!(!is_right(&frame, 14, 34, protocol as u8));
        Offload::parse(&header(1, 0, 0, 34, offset as u16)).complete(&mut frame);
        assert!(is_right(&frame, 14, 34, protocol as u8));
        assert_ne!(&frame[34 + offset..36 + offset], [0, 0]);
    }
}

/// What the kernel gets for a message: the header of virtio-net, then the frame.
fn on_the_way(message: &merge::Message, packets: &[Packet]) -> Vec<u8> {
    let mut bytes = message.head().to_vec();
    for packet in &packets[message.packets.clone()] {
        bytes.extend_from_slice(message.body(packet));
    }
    bytes
}

/// The frames that result when messages are cut again.
fn merge_and_cut(packets: &[Packet]) -> (usize, Vec<Vec<u8>>) {
    let mut messages = Vec::new();
    merge::messages(packets, 1514, &mut messages);
    let mut out = Vec::new();
    for message in &messages {
        let bytes = on_the_way(message, packets);
        let (header, mut frame) = (bytes[..10].try_into().unwrap(), bytes[10..].to_vec());
        let offload = Offload::parse(&header);
        match offload.segments {
            Some(Segments::Of(size)) => {
                // What the kernel would give to a host as a whole is right, too.
                let segments = cut(&frame, frame.len(), size).unwrap();
                offload.complete(&mut frame);
                let transport = if frame[14] >> 4 == 4 { 34 } else { 54 };
                assert!(is_right(&frame, 14, transport, 6));
                out.extend(segments);
            }
            _ => out.push(frame),
        }
    }
    (messages.len(), out)
}

/// The segments of a TCP connection without the flags that forbid merging.
fn stream(is_ipv6: bool, payload: &[u8], size: usize) -> Vec<Packet> {
    let mut segment = tcp(payload);
    segment[13] = 0x18;
    let frame = if is_ipv6 { ipv6(6, &[], &segment) } else { ipv4(6, &[], &segment) };
    let frames = cut(&frame, 200.min(frame.len()), size).unwrap();
    frames.iter().map(|frame| Packet::from_bytes(frame).unwrap()).collect()
}

#[test]
fn streams_are_merged_and_come_out_the_same() {
    let payload: Vec<u8> = (0..60_000u32).map(|n| (n / 7) as u8).collect();
    for is_ipv6 in [false, true] {
        let packets = stream(is_ipv6, &payload, 1400);
        let frames: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        assert_eq!(merge_and_cut(&packets), (1, frames));
    }
    // Two connections that take turns are not merged.
    let (a, b) = (stream(false, &payload, 1400), stream(true, &payload, 1400));
    let mixed: Vec<Packet> = a.into_iter().zip(b).flat_map(|(a, b)| [a, b]).collect();
    assert_eq!(merge_and_cut(&mixed).0, mixed.len());
}

#[test]
fn packets_without_ethernet_headers_are_merged_and_cut_too() {
    let payload: Vec<u8> = (0..30_000u32).map(|n| (n / 5) as u8).collect();
    for is_ipv6 in [false, true] {
        let mut packets = stream(is_ipv6, &payload, 1400);
        packets.iter_mut().for_each(|packet| assert!(packet.strip(14)));
        let mut messages = Vec::new();
        merge::messages_over(Link::Ip, &packets, 1500, &mut messages);
        let [message] = messages.as_slice() else { panic!("{} messages", messages.len()) };
        let bytes = on_the_way(message, &packets);
        let offload = Offload::parse_over(Link::Ip, bytes[..10].try_into().unwrap());
        assert_eq!(offload.segments, Some(Segments::Of(1400)));
        let whole = Packet::from_bytes(&bytes[10..]).unwrap();
        let mut out = Vec::new();
        let finisher = Finisher { headroom: 128, snap_length: 65_535 };
        let finished = finisher.finish(offload, whole, &[], |packet| out.push(packet));
        assert_eq!(finished, Finished::Cut { lost: 0 });
        assert!(out.iter().map(Packet::data).eq(packets.iter().map(Packet::data)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_changes_nothing(
        length in 1usize..20_000,
        size in 500usize..1500,
        is_ipv6: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..100, any::<u8>()), 0..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let payload: Vec<u8> = (0..length).map(|n| (n / 3) as u8).collect();
        let mut packets = stream(is_ipv6, &payload, size);
        for (which, at, value) in changes {
            let which = which.index(packets.len());
            let data = packets[which].data_mut();
            let at = at.min(data.len() - 1);
            data[at] = value;
        }
        for index in order {
            let at = index.index(packets.len());
            let packet = packets.remove(at);
            packets.push(packet);
        }
        let frames: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        prop_assert_eq!(merge_and_cut(&packets).1, frames);
    }
}
