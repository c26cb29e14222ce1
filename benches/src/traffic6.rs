//! IPv6 routes, and traffic of a third each IPv4, IPv6 and neither, always the same.

use std::collections::HashSet;
use std::net::Ipv6Addr;
use std::path::Path;

use anyhow::Context;
use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv6FlowLabel, Ipv6Header};
use millrace_elements::ip::lookup::{Hop, Prefix, Route};

use crate::pyasn;
use crate::traffic::FRAME_LEN;

/// A route of IPv6.
pub(crate) type Route6 = Route<Ipv6Addr>;

/// Routes in the Internet's table of November 2015 (RouteViews).
pub(crate) const ROUTES: usize = 27_693;

/// Where random numbers start, for the table and for the trace.
const SEED: u64 = 0x6d69_6c6c_6970_7636;

/// How many of those have a prefix of this length. Lengths with fewer than 100 are omitted.
const LENGTHS: &[(u8, u32)] = &[
    (29, 1200),
    (32, 11_180),
    (33, 313),
    (34, 213),
    (35, 251),
    (36, 1004),
    (38, 203),
    (40, 1221),
    (41, 188),
    (42, 200),
    (43, 149),
    (44, 1125),
    (45, 119),
    (46, 379),
    (47, 191),
    (48, 12_142),
    (56, 180),
    (64, 772),
    (126, 269),
];

/// The most frequent first 16 bits of those networks, and their number.
const FIRST: &[(u16, u32)] = &[
    (0x2001, 6365),
    (0x2a02, 2088),
    (0x2a00, 1996),
    (0x2600, 1914),
    (0x2804, 1775),
    (0x2620, 1587),
    (0x2607, 1381),
    (0x2a01, 1361),
    (0x2a03, 1047),
    (0x2406, 707),
    (0x2606, 681),
    (0x2604, 592),
    (0x2a04, 583),
    (0x2404, 544),
    (0x2400, 534),
    (0x2401, 521),
];

/// The number of /32 networks, which contain the longer ones.
const ALLOCATIONS: usize = 9000;

/// `count` different routes with the Internet's mix of prefix lengths, to outputs 1 to 3.
pub(crate) fn routes(count: usize) -> Vec<Route6> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let allocations: Vec<u128> = (0..ALLOCATIONS)
        .map(|_| {
            let first = pick(FIRST, &mut random).unwrap_or(0x2001);
            u128::from(first) << 112 | u128::from(random.u16(..)) << 96
        })
        .collect();
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let Some(length) = pick(LENGTHS, &mut random) else { break };
        let Some(allocation) = random.choice(&allocations) else { break };
        let prefix = Prefix::around(allocation | random.u128(..) >> 32, length);
        if seen.insert(prefix) {
            routes.push(Route { prefix, hop: hop(&mut random) });
        }
    }
    routes
}

fn pick<T: Copy>(weighted: &[(T, u32)], random: &mut fastrand::Rng) -> Option<T> {
    let total: u32 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut place = random.u32(..total);
    let here = |(_, weight): &&(T, u32)| {
        let here = place < *weight;
        place = place.wrapping_sub(*weight);
        here
    };
    weighted.iter().find(here).map(|(value, _)| *value)
}

/// A random gateway.
fn hop(random: &mut fastrand::Rng) -> Hop<Ipv6Addr> {
    let output = random.u16(1..=3);
    let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, output, random.u16(2..=17));
    Hop { gateway, port: output.into() }
}

/// The Internet's routes from a file of [`pyasn`], with gateways as in [`routes`].
///
/// # Errors
/// The file cannot be read, or has another format.
pub(crate) fn real_routes(file: &Path) -> anyhow::Result<Vec<Route6>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let prefixes = pyasn::read(file)?.into_iter();
    Ok(prefixes.map(|(prefix, _)| Route { prefix, hop: hop(&mut random) }).collect())
}

/// An address of a route's network.
pub(crate) fn address_in(route: &Route6, random: &mut fastrand::Rng) -> Ipv6Addr {
    Ipv6Addr::from_bits(route.prefix.first() | random.u128(..) & !route.prefix.mask())
}

/// The frames of an IPv4 trace, as many IPv6 frames to destinations that the routes cover, and as many others, in
/// random order.
///
/// # Errors
/// There are no routes.
pub(crate) fn mixed(
    ipv4: Vec<[u8; FRAME_LEN]>,
    routes: &[Route6],
) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 1);
    let mut frames = ipv4;
    for _ in 0..frames.len() {
        let route = random.choice(routes).context("no routes")?;
        frames.push(ipv6(address_in(route, &mut random), &mut random)?);
        frames.push(frame(EtherType(LOCAL), &[], &mut random)?);
    }
    random.shuffle(&mut frames);
    Ok(frames)
}

/// IEEE 802's type for local experiments.
const LOCAL: u16 = 0x88b5;

/// A packet without an upper layer (RFC 8200, 4.7): there is no room for UDP in the shortest frame.
pub(crate) fn ipv6(to: Ipv6Addr, random: &mut fastrand::Rng) -> anyhow::Result<[u8; FRAME_LEN]> {
    const NO_NEXT_HEADER: IpNumber = IpNumber(59);
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::try_new(random.u32(..1 << 20))?,
        payload_length: (FRAME_LEN - 14 - 40) as u16,
        next_header: NO_NEXT_HEADER,
        hop_limit: 64,
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).octets(),
        destination: to.octets(),
    };
    frame(EtherType::IPV6, &header.to_bytes(), random)
}

/// A frame to the router, padded with random bytes.
fn frame(
    ether_type: EtherType,
    header: &[u8],
    random: &mut fastrand::Rng,
) -> anyhow::Result<[u8; FRAME_LEN]> {
    let ethernet = Ethernet2Header {
        source: [2, 0, 10, 0, 0, 2],
        destination: [2, 0, 10, 0, 0, 1],
        ether_type,
    };
    let mut frame = [ethernet.to_bytes().as_slice(), header].concat();
    frame.resize_with(FRAME_LEN, || random.u8(..));
    frame.as_slice().try_into().context("a frame of another length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic;

    #[test]
    fn routes_are_different_and_the_same_each_time() {
        let made = routes(5000);
        let networks: HashSet<_> = made.iter().map(|route| route.prefix).collect();
        assert_eq!(networks.len(), 5000);
        assert_eq!(made, routes(5000));
    }

    #[test]
    fn a_third_of_the_frames_is_of_each_kind() {
        let (routes4, routes6) = (traffic::routes(100), routes(100));
        let ipv4 = traffic::trace(&routes4).unwrap();
        let third = ipv4.len();
        let mut kinds = [0; 3];
        for frame in mixed(ipv4, &routes6).unwrap() {
            let packet = etherparse::PacketHeaders::from_ethernet_slice(&frame).unwrap();
            kinds[match packet.net {
                Some(etherparse::NetHeaders::Ipv4(..)) => 0,
                Some(etherparse::NetHeaders::Ipv6(ip, _)) => {
                    let to = u128::from_be_bytes(ip.destination);
                    assert!(routes6.iter().any(|route| route.prefix.contains(to)));
                    assert_eq!(usize::from(ip.payload_length), FRAME_LEN - 54);
                    1
                }
                _ => 2,
            }] += 1;
        }
        assert_eq!(kinds, [third; 3]);
    }
}
