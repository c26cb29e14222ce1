//! Where regions lie in packets of all kinds.

use millrace_core::Packet;
use millrace_gpu::kernel::{CLASSIFY_REGIONS, MAX_EXTENSIONS};
use millrace_gpu::region::{Base, Layers, Region, View};
use millrace_match::rules::Key;
use proptest::prelude::*;

use super::packets::{regions, shapes};

proptest! {
    /// Layers are where the packet was built with them, however it is marked, cut or stripped.
    #[test]
    fn a_region_contains_the_bytes_that_it_names(shape in shapes(), region in regions(false)) {
        let built = shape.build();
        let view = View::of(&built.packet, Base::TransportPayload);
        prop_assert_eq!(view.bytes, &built.frame);
        let layers = Layers::of(&built.packet, Base::TransportPayload);
        prop_assert_eq!(layers.slice(&built.packet, &region), built.slice(&region));
        if region.base != Base::Annotation {
            prop_assert_eq!(view.slice(&region), built.slice(&region));
        }
    }

    /// A view that is only as deep as the region needs finds the same bytes.
    #[test]
    fn parsing_deeper_finds_the_same_layers(shape in shapes(), region in regions(false)) {
        let built = shape.build();
        let depth = region.base.max(Base::Network);
        prop_assert_eq!(
            Layers::of(&built.packet, depth).slice(&built.packet, &region),
            Layers::of(&built.packet, Base::TransportPayload).slice(&built.packet, &region)
        );
    }

    /// The classifier reads the same from slices as from whole frames.
    #[test]
    fn seven_fields_are_those_of_the_frame(shape in shapes()) {
        let built = shape.build();
        let view = View::of(&built.packet, Base::Transport);
        let [ethernet, ether_type, network, transport] =
            CLASSIFY_REGIONS.map(|region| view.slice(&region));
        let key = Key::of_slices(ethernet, ether_type, network, transport);
        let expected = if built.has_ethernet() {
            Key::of_frame(&built.frame)
        } else {
            Key::of_datagram(&built.frame)
        };
        prop_assert_eq!(key, expected);
    }

    /// Bytes without any order, marks without any sense.
    #[test]
    fn random_bytes_do_not_make_it_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ip in proptest::option::of((0..60usize, prop_oneof![Just(0x45u8), Just(0x60), Just(0x4f)])),
        mac in proptest::option::of(-80..220isize),
        network in proptest::option::of(-80..220isize),
        strip in 0..40usize,
        region in regions(false),
    ) {
        if let Some((at, version)) = ip
            && let Some(byte) = bytes.get_mut(at)
        {
            *byte = version;
        }
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        let _ = packet.strip(strip);
        if let Some(mac) = mac {
            packet.set_mac_header(mac);
        }
        if let Some(network) = network {
            packet.set_network_header(network, 20);
        }
        let layers = Layers::of(&packet, Base::TransportPayload);
        let len = layers.slice(&packet, &region).len();
        prop_assert_eq!(len, layers.span(&region).1, "{} of {:?}", region, layers);
    }
}

#[test]
fn an_endless_chain_of_extension_headers_has_no_transport() {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 60, 64];
    bytes.extend([0; 32]);
    for _ in 0..MAX_EXTENSIONS {
        bytes.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    }
    let build = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let len = bytes.len() - 40;
        bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(0, 40);
        packet
    };
    let transport = Region::read(Base::Transport, 0, 4);
    let one_less = bytes.len() - 8;
    bytes[one_less] = 17;
    bytes.extend(*b"udp header");
    let packet = build(&bytes);
    assert_eq!(Layers::of(&packet, Base::Transport).slice(&packet, &transport), b"udp ");
    bytes.splice(40..40, [60, 0, 0, 0, 0, 0, 0, 0]);
    let packet = build(&bytes);
    assert_eq!(Layers::of(&packet, Base::Transport).slice(&packet, &transport), b"");
}

#[test]
fn a_wrong_ip_length_is_ignored() {
    for (total, end) in [(0u16, 34usize), (19, 34), (20, 20), (24, 24), (200, 34)] {
        let mut bytes = [0x11; 34];
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[6..8].fill(0);
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(0, 20);
        let whole = Region::to_end(Base::Network, 0);
        let layers = Layers::of(&packet, Base::Network);
        assert_eq!(layers.slice(&packet, &whole).len(), end, "{total}");
    }
}
