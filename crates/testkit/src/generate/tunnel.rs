//! IP packets inside tunnels and tagged frames.

/// The encapsulations of [`wrap`]. The first one changes nothing.
pub const TUNNELS: &[&str] = &[
    "none",
    "ipip",
    "ip in ipv6",
    "gre",
    "gre with all",
    "gre ether",
    "vxlan",
    "gtp",
    "gtp extended",
];

/// Encapsulates an IP packet in one of [`TUNNELS`]. Lengths and checksums of the outer headers are zero.
#[must_use]
pub fn wrap(packet: &[u8], how: &str) -> Vec<u8> {
    let is_v4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
    let number = if is_v4 { 4u8 } else { 41 };
    let [high, low] = ether_type(packet);
    match how {
        "ipip" => in_ipv4(number, packet),
        "ip in ipv6" => {
            let mut outer = vec![0x60, 0, 0, 0, 0, 0, 60, 64];
            outer.extend([0x20; 16]);
            outer.extend([0x21; 16]);
            // Destination options, then a fragment header of an unfragmented packet.
            outer.extend([44, 0, 1, 4, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 9]);
            [outer, packet.to_vec()].concat()
        }
        "gre" => in_ipv4(47, &[&[0, 0, high, low], packet].concat()),
        "gre with all" => in_ipv4(47, &[&[0xb0, 0, high, low], &[7; 12][..], packet].concat()),
        "gre ether" => in_ipv4(47, &[&[0, 0, 0x65, 0x58], &tagged(packet, 1)[..]].concat()),
        "vxlan" => {
            let header = [8, 0, 0, 0, 0, 0, 42, 0];
            in_ipv4(17, &[&udp(50_000, 4789)[..], &header, &tagged(packet, 0)].concat())
        }
        "gtp" => {
            let header = [0x30, 255, 0, 0, 0, 0, 0, 1];
            in_ipv4(17, &[&udp(2152, 2152)[..], &header, packet].concat())
        }
        "gtp extended" => {
            let header = [0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85];
            let extensions = [1, 0, 9, 0xc0, 2, 1, 2, 3, 4, 5, 6, 0];
            in_ipv4(17, &[&udp(1, 2152)[..], &header, &extensions, packet].concat())
        }
        _ => packet.to_vec(),
    }
}

/// An IP packet in an Ethernet frame with this many VLAN tags.
#[must_use]
pub fn tagged(packet: &[u8], tags: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for tag in 0..tags {
        frame.extend([if tag == 0 { [0x88, 0xa8] } else { [0x81, 0] }, [0, 7]].concat());
    }
    frame.extend(ether_type(packet));
    [frame, packet.to_vec()].concat()
}

fn ether_type(packet: &[u8]) -> [u8; 2] {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => [8, 0],
        _ => [0x86, 0xdd],
    }
}

fn in_ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x46, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header.extend([192, 0, 2, 1, 192, 0, 2, 2, 1, 1, 1, 0]);
    [&header, payload].concat()
}

fn udp(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes(), [0, 0], [0, 0]].concat()
}
