//! Packets for the tests of IP elements: valid ones, made by etherparse, and hostile ones.

use std::cell::RefCell;
use std::net::Ipv4Addr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, Ipv4Options};
use millrace_core::headers::Ipv4Header;
use millrace_core::testing::Rig;
use millrace_core::{Packet, PacketType};
use proptest::prelude::*;

/// An IP datagram to be built. The default is a UDP datagram with 20 bytes of payload.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// The time to live.
    pub ttl: u8,
    /// The protocol.
    pub protocol: u8,
    /// The identification.
    pub id: u16,
    /// Whether it must not be fragmented.
    pub dont_fragment: bool,
    /// Whether other fragments follow.
    pub more_fragments: bool,
    /// In units of 8 bytes.
    pub fragment_offset: u16,
    /// A multiple of 4 bytes, up to 40.
    pub options: Vec<u8>,
    /// What follows the IP header.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The source unless another one is chosen.
    pub const SOURCE: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 1);
    /// The destination unless another one is chosen.
    pub const DESTINATION: Ipv4Addr = Ipv4Addr::new(2, 0, 0, 2);

    /// A UDP datagram with this payload and a correct checksum.
    pub fn udp(payload: &[u8]) -> Self {
        let ip = Self::of(17);
        let header = etherparse::UdpHeader::with_ipv4_checksum(1234, 5678, &ip.header(), payload);
        Self { payload: [&header.unwrap().to_bytes(), payload].concat(), ..ip }
    }

    /// A TCP segment with this payload and a correct checksum.
    pub fn tcp(payload: &[u8]) -> Self {
        let ip = Self::of(6);
        let mut header = etherparse::TcpHeader::new(1234, 80, 1, 1000);
        header.checksum = header.calc_checksum_ipv4(&ip.header(), payload).unwrap();
        Self { payload: [&header.to_bytes(), payload].concat(), ..ip }
    }

    /// An ICMP message with a correct checksum.
    pub fn icmp(kind: u8, code: u8, rest: [u8; 4], payload: &[u8]) -> Self {
        let kind =
            etherparse::Icmpv4Type::Unknown { type_u8: kind, code_u8: code, bytes5to8: rest };
        let header = etherparse::Icmpv4Header::with_checksum(kind, payload);
        Self { payload: [&header.to_bytes(), payload].concat(), ..Self::of(1) }
    }

    /// A datagram of this protocol, without payload.
    pub fn of(protocol: u8) -> Self {
        Self {
            source: Self::SOURCE,
            destination: Self::DESTINATION,
            ttl: 64,
            protocol,
            id: 0x1234,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// The bytes, with a correct header checksum.
    pub fn bytes(&self) -> Vec<u8> {
        [self.header().to_bytes().as_slice(), &self.payload].concat()
    }

    fn header(&self) -> etherparse::Ipv4Header {
        let mut header = etherparse::Ipv4Header {
            identification: self.id,
            dont_fragment: self.dont_fragment,
            more_fragments: self.more_fragments,
            fragment_offset: self.fragment_offset.try_into().unwrap(),
            time_to_live: self.ttl,
            protocol: IpNumber(self.protocol),
            source: self.source.octets(),
            destination: self.destination.octets(),
            options: Ipv4Options::try_from(self.options.as_slice()).unwrap(),
            ..etherparse::Ipv4Header::default()
        };
        header.set_payload_len(self.payload.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        header
    }

    /// A packet as CheckIPHeader emits it.
    pub fn packet(&self) -> Packet {
        let mut packet = Packet::from_bytes(&self.bytes()).unwrap();
        packet.set_network_header(0, 20 + self.options.len());
        packet.set_dst_ip(self.destination);
        packet
    }
}

impl Default for Datagram {
    fn default() -> Self {
        Self::udp(b"twenty bytes of data")
    }
}

/// Parses an IP datagram, and checks that its lengths and header checksum are correct.
pub fn read(bytes: &[u8]) -> (etherparse::Ipv4Header, Vec<u8>) {
    let (header, payload) = etherparse::Ipv4Header::from_slice(bytes).unwrap();
    assert_eq!(header.header_checksum, header.calc_header_checksum(), "checksum of {bytes:02x?}");
    assert_eq!(usize::from(header.total_len), bytes.len(), "length of {bytes:02x?}");
    (header, payload.to_vec())
}

/// Whether the checksum of the UDP, TCP or ICMP message in an IP datagram is correct.
pub fn has_right_transport_checksum(bytes: &[u8]) -> bool {
    let (header, payload) = read(bytes);
    let mut sum = Sum16BitWords::new().add_slice(&payload);
    let sum = match header.protocol {
        IpNumber::ICMP => sum,
        IpNumber(protocol) => sum
            .add_4bytes(header.source)
            .add_4bytes(header.destination)
            .add_2bytes([0, protocol])
            .add_2bytes((payload.len() as u16).to_be_bytes()),
    };
    sum.ones_complement() == 0
}

/// The element lets those datagrams through whose transport checksum etherparse finds right, whatever has changed in
/// their data.
pub fn finds_what_etherparse_finds(element: &str, datagram: fn(&[u8]) -> Datagram) {
    let rig = RefCell::new(Rig::new(element, 1, 1).unwrap());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(
        data in prop::collection::vec(any::<u8>(), 1..60),
        edit in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    )| {
        let mut datagram = datagram(&data);
        let header = datagram.payload.len() - data.len();
        if let Some((at, byte)) = edit {
            datagram.payload[header + at.index(data.len())] = byte;
        }
        let passes = !rig.borrow_mut().push_packets(0, vec![datagram.packet()])[0].is_empty();
        prop_assert_eq!(passes, has_right_transport_checksum(&datagram.bytes()));
    });
}

/// Pushes packets to an element that are random, malformed, truncated or have wrong header positions; some are shared.
/// The element must not panic, and must account for each packet.
pub fn withstands(element: &str, outputs: usize) {
    withstands_all(element, outputs, damaged());
}

/// Like [`withstands`], but with random packets or those given.
pub fn withstands_all(
    element: &str,
    outputs: usize,
    damaged: impl Strategy<Value = Vec<u8>> + 'static,
) {
    let rig = RefCell::new(Rig::new(element, 1, outputs).unwrap());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) };
    proptest!(config, |(hostile in prop::collection::vec(hostile(damaged), 1..12))| {
        let packets = hostile.iter().flat_map(Hostile::packets).collect();
        let mut rig = rig.borrow_mut();
        rig.push_packets(0, packets);
        let stats = rig.stats();
        prop_assert!(stats.balanced(), "{stats:?}");
    });
}

/// A packet that an element may not expect.
#[derive(Clone, Debug)]
struct Hostile {
    bytes: Vec<u8>,
    /// The network header position and length, correct or not.
    mark: Option<(isize, usize)>,
    annotations: u8,
    packet_type: PacketType,
    shared: bool,
}

impl Hostile {
    fn packets(&self) -> Vec<Packet> {
        let mut packet = Packet::from_bytes(&self.bytes).unwrap();
        if let Some((offset, len)) = self.mark {
            packet.set_network_header(offset, len);
        }
        packet.annotations_mut().fill(self.annotations);
        packet.set_packet_type(self.packet_type);
        let twin = self.shared.then(|| packet.share().unwrap());
        twin.into_iter().chain([packet]).collect()
    }
}

fn hostile(damaged: impl Strategy<Value = Vec<u8>> + 'static) -> impl Strategy<Value = Hostile> {
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..120), damaged];
    let mark = prop_oneof![
        4 => Just(Some((0isize, 20usize))),
        2 => Just(Some((0, 60))),
        1 => Just(None),
        2 => (-140isize..200, 0usize..80).prop_map(Some),
    ];
    let packet_type = prop_oneof![
        Just(PacketType::Host),
        Just(PacketType::Broadcast),
        Just(PacketType::OtherHost),
    ];
    (bytes, mark, any::<u8>(), packet_type, any::<bool>()).prop_map(
        |(bytes, mark, annotations, packet_type, shared)| Hostile {
            bytes,
            mark,
            annotations,
            packet_type,
            shared,
        },
    )
}

/// A valid datagram with some of its bytes changed, and perhaps truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let payload = || prop::collection::vec(any::<u8>(), 0..300);
    let sound = prop_oneof![
        payload().prop_map(|bytes| Datagram::udp(&bytes)),
        payload().prop_map(|bytes| Datagram::tcp(&bytes)),
        (any::<[u8; 6]>(), payload()).prop_map(|([kind, code, a, b, c, d], bytes)| {
            Datagram::icmp(kind % 20, code % 6, [a, b, c, d], &bytes)
        }),
    ];
    let options = prop_oneof![
        3 => Just(Vec::new()),
        1 => (0usize..=10).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4)),
        1 => Just(vec![7, 7, 4, 0, 0, 0, 0, 0]),
        1 => Just(vec![68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        1 => Just(vec![137, 11, 8, 9, 9, 9, 9, 8, 8, 8, 8, 0]),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = prop_oneof![2 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (sound, options, edits, any::<bool>(), cut).prop_map(|(sound, options, edits, fix, cut)| {
        let mut bytes = Datagram { options, ..sound }.bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if fix {
            Ipv4Header::fill_checksum(&mut bytes);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}
