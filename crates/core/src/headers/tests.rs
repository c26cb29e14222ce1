//! The views, compared with etherparse and tested with arbitrary bytes.

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;

fn udp_frame(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 1, 2], 61)
        .udp(5000, 53);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

#[test]
fn a_udp_frame_is_read_field_by_field() {
    let mut frame = udp_frame(b"hello");
    frame.extend([0; 9]);
    let (ethernet, rest) = EthernetHeader::view(&frame).unwrap();
    assert_eq!(ethernet.src.0, [2, 0, 0, 0, 0, 1]);
    assert_eq!(ethernet.ether_type.get(), ether_type::IPV4);
    let (ip, options, payload) = Ipv4Header::split(rest).unwrap();
    assert_eq!((ip.version(), ip.header_len(), ip.ttl), (4, 20, 61));
    assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 1].into(), [10, 0, 1, 2].into()));
    assert_eq!((ip.protocol, options.count(), ip.is_fragment()), (protocol::UDP, 0, false));
    let (udp, payload) = UdpHeader::split(payload).unwrap();
    assert_eq!((udp.src_port.get(), udp.dst_port.get()), (5000, 53));
    assert_eq!(payload, b"hello", "padding is cut off");
}

#[test]
fn a_tcp_segment_over_ipv6_is_read_with_its_options() {
    let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9)
        .tcp(80, 4000, 7, 65000)
        .syn()
        .options(&[
            etherparse::TcpOptionElement::Noop,
            etherparse::TcpOptionElement::MaximumSegmentSize(1460),
        ])
        .unwrap();
    let mut bytes = Vec::new();
    builder.write(&mut bytes, b"data").unwrap();
    let (ip, payload) = Ipv6Header::split(&bytes).unwrap();
    assert_eq!((ip.version(), ip.hop_limit, ip.source()), (6, 9, [1; 16].into()));
    assert_eq!(ip.extensions(payload).upper(), Some((protocol::TCP, 0)));
    let (tcp, options, payload) = TcpHeader::split(payload).unwrap();
    assert_eq!((tcp.src_port.get(), tcp.sequence.get(), tcp.flags), (80, 7, tcp_flags::SYN));
    assert_eq!(tcp.window.get(), 65000);
    let options: Vec<_> = options.map(|option| option.unwrap().bytes.to_vec()).collect();
    assert_eq!(options, [vec![1], vec![2, 4, 5, 180]]);
    assert_eq!(payload, b"data");
}

#[test]
fn ttl_and_checksum_move_together() {
    let mut frame = udp_frame(b"");
    let (_, ip) = EthernetHeader::view_mut(&mut frame).unwrap();
    Ipv4Header::view_mut(ip).unwrap().0.decrement_ttl();
    let updated = ip.to_vec();
    assert!(Ipv4Header::fill_checksum(ip));
    assert_eq!(updated, ip);
    assert!(crate::checksum::verify(&ip[..20]));
    ip[9] ^= 1;
    assert!(!crate::checksum::verify(&ip[..20]));
    assert!(!Ipv4Header::fill_checksum(&mut ip[..19]));
}

#[test]
fn every_checksum_moves_with_the_ttl_as_rfc_1624_says() {
    let mut frame = udp_frame(b"");
    let (_, ip) = EthernetHeader::view_mut(&mut frame).unwrap();
    let (ip, _) = Ipv4Header::view_mut(ip).unwrap();
    for checksum in 0..=u16::MAX {
        ip.ttl = 64;
        ip.checksum.set(checksum);
        ip.decrement_ttl();
        assert_eq!(ip.checksum.get(), crate::checksum::update(checksum, 0x4011, 0x3f11));
    }
}

#[test]
fn options_end_where_they_must() {
    let kinds = |area: &[u8]| -> Vec<Result<u8, usize>> {
        Options::new(area).map(|option| option.map(|option| option.kind)).collect()
    };
    assert_eq!(kinds(&[1, 7, 3, 4, 0, 9]), [Ok(1), Ok(7)]);
    assert_eq!(kinds(&[1, 7, 4, 4]), [Ok(1), Err(1)]);
    assert_eq!(kinds(&[7, 1]), [Err(0)]);
    assert_eq!(kinds(&[1, 7]), [Ok(1), Err(1)]);
    assert_eq!(kinds(&[]), []);
}

#[test]
fn extension_headers_are_walked() {
    let mut header = Ipv6Header::read_from_bytes(&[0; 40]).unwrap();
    header.next_header = protocol::HOP_BY_HOP;
    let mut payload = [0u8; 32];
    payload[0] = protocol::FRAGMENT;
    payload[8] = protocol::AH;
    payload[16] = protocol::UDP;
    payload[17] = 1; // 12 bytes
    let kinds: Vec<u8> = header.extensions(&payload).map(|extension| extension.kind).collect();
    assert_eq!(kinds, [protocol::HOP_BY_HOP, protocol::FRAGMENT, protocol::AH]);
    assert_eq!(header.extensions(&payload).upper(), Some((protocol::UDP, 28)));
    assert_eq!(header.extensions(&payload[..27]).upper(), None, "cut off");
    payload[11] = 8; // a later fragment
    assert_eq!(header.extensions(&payload).upper(), None);
}

#[test]
fn vlan_and_version_bits() {
    let tag = VlanHeader { tci: U16::new(0xb123), ether_type: U16::new(ether_type::ARP) };
    assert_eq!((tag.priority(), tag.drop_eligible(), tag.vlan()), (5, true, 0x123));
    let mut header = Ipv6Header::read_from_bytes(&[0; 40]).unwrap();
    header.set_version_class_flow(0xab, 0xfff1_2345);
    assert_eq!(
        (header.version(), header.traffic_class(), header.flow_label()),
        (6, 0xab, 0x1_2345)
    );
    let mut icmp = IcmpHeader::read_from_bytes(&[0; 8]).unwrap();
    icmp.set_id(0x1234);
    icmp.set_sequence(0x5678);
    assert_eq!((icmp.rest, icmp.id(), icmp.sequence()), ([0x12, 0x34, 0x56, 0x78], 0x1234, 0x5678));
}

#[test]
fn arp_has_the_layout_of_the_standard() {
    let one = (crate::net::EtherAddress([1; 6]), [10, 0, 0, 1].into());
    let two = (crate::net::EtherAddress([2; 6]), [10, 0, 0, 2].into());
    let arp = ArpHeader::new(arp_operation::REPLY, one, two);
    let parsed = etherparse::ArpPacketSlice::from_slice(arp.as_bytes()).unwrap();
    assert_eq!(parsed.operation(), etherparse::ArpOperation::REPLY);
    assert_eq!(
        (parsed.sender_hw_addr(), parsed.target_protocol_addr()),
        (&[1; 6][..], &[10, 0, 0, 2][..])
    );
    assert!(arp.is_ethernet_ipv4());
    assert_eq!((arp.sender(), arp.target()), (one.1, two.1));
}

proptest! {
    /// No bytes make a view panic, and the results of a split lie within its input.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Some((header, options, payload)) = Ipv4Header::split(&bytes) {
            prop_assert_eq!(usize::from(header.total_len.get()), header.header_len() + payload.len());
            prop_assert!(options.area().len() <= 40);
            prop_assert!(options.count() <= 40);
        }
        if let Some((header, payload)) = Ipv6Header::split(&bytes) {
            prop_assert!(header.extensions(payload).count() <= payload.len());
            if let Some((_, offset)) = header.extensions(payload).upper() {
                prop_assert!(offset <= payload.len());
            }
        }
        if let Some((header, _, payload)) = TcpHeader::split(&bytes) {
            prop_assert_eq!(header.header_len() + payload.len(), bytes.len());
        }
        if let Some((header, payload)) = UdpHeader::split(&bytes) {
            prop_assert_eq!(usize::from(header.len.get()), 8 + payload.len());
        }
        let mut bytes = bytes;
        if Ipv4Header::fill_checksum(&mut bytes) {
            let len = Ipv4Header::view(&bytes).unwrap().0.header_len();
            prop_assert!(crate::checksum::verify(&bytes[..len]));
        }
    }

    /// Where etherparse accepts an IPv4 header, the view has the same fields.
    #[test]
    fn ipv4_as_etherparse(mut bytes in proptest::collection::vec(any::<u8>(), 20..80), ihl in 4u8..16) {
        bytes[0] = 0x40 | ihl;
        let ours = Ipv4Header::split(&bytes);
        let theirs = etherparse::Ipv4Slice::from_slice(&bytes);
        let malformed = etherparse::Ipv4HeaderSlice::from_slice(&bytes).is_err();
        if let (Some((ours, ..)), false) = (&ours, malformed) {
            let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap();
            prop_assert_eq!(ours.fragment_offset(), usize::from(theirs.fragments_offset().byte_offset()));
            prop_assert_eq!(ours.more_fragments(), theirs.more_fragments());
            prop_assert_eq!(ours.dont_fragment(), theirs.dont_fragment());
            prop_assert_eq!(ours.dscp(), theirs.dcp().value());
            prop_assert_eq!(ours.ecn(), theirs.ecn().value());
            prop_assert_eq!(ours.checksum.get(), theirs.header_checksum());
        }
        if theirs.is_ok() {
            prop_assert!(ours.is_some());
        }
    }
}
