//! The input of the router: a routing table, and frames to destinations in it, always the same.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use etherparse::PacketBuilder;
use millrace_elements::ip::lookup::{Address, Hop, Prefix, Route};

use crate::pyasn;

/// The length of a frame in bytes: the shortest Ethernet frame, without the checksum, which devices do not deliver.
pub(crate) const FRAME_LEN: usize = 60;

/// The number of frames in a trace: too many for the first-level cache, and few enough for the second, where a card's
/// traffic usually is.
const FRAMES: usize = 1024;

/// The outputs of the lookup element that routes lead to; output `n` is the network 10.0.n.0/24.
const OUTPUTS: std::ops::RangeInclusive<u8> = 1..=3;

/// The gateways on each network: its hosts with these numbers.
const GATEWAYS: std::ops::RangeInclusive<u8> = 2..=17;

/// The seed of the table and the trace.
const SEED: u64 = 0x6d69_6c6c;

/// How many of 512,621 routes have a prefix of this length: RouteViews, 13 May 2014.
const LENGTHS: &[(u8, u32)] = &[
    (8, 16),
    (9, 12),
    (10, 30),
    (11, 90),
    (12, 259),
    (13, 487),
    (14, 974),
    (15, 1726),
    (16, 13_017),
    (17, 7050),
    (18, 11_917),
    (19, 24_936),
    (20, 35_828),
    (21, 37_624),
    (22, 57_782),
    (23, 47_385),
    (24, 270_023),
    (25, 918),
    (26, 1060),
    (27, 537),
    (28, 138),
    (29, 292),
    (30, 331),
    (31, 20),
    (32, 169),
];

/// `count` different routes with the Internet's mix of prefix lengths. None is for 10.0.0.0/8,
/// where the router's own networks are, or for 127.0.0.0/8.
pub(crate) fn routes(count: usize) -> Vec<Route> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let total: u32 = LENGTHS.iter().map(|(_, routes)| routes).sum();
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let mut place = random.u32(..total);
        let length = LENGTHS.iter().find(|(_, routes)| {
            let here = place < *routes;
            place = place.wrapping_sub(*routes);
            here
        });
        let length = length.map_or(24, |(length, _)| *length);
        let first = random.u32(1..224);
        let hop = hop(&mut random);
        let prefix = Prefix::new(first << 24 | random.u32(..1 << 24), length);
        if !matches!(first, 10 | 127) && seen.insert(prefix) {
            routes.push(Route { prefix, hop });
        }
    }
    routes
}

/// A random gateway on one of the router's networks.
fn hop(random: &mut fastrand::Rng) -> Hop {
    let output = random.u8(OUTPUTS);
    Hop { gateway: Ipv4Addr::new(10, 0, output, random.u8(GATEWAYS)), port: output.into() }
}

/// The routes, distributed over this number of outputs in turn.
pub(crate) fn spread(routes: &[Route], outputs: usize) -> Vec<Route> {
    let mut routes = routes.to_vec();
    for (n, route) in routes.iter_mut().enumerate() {
        route.hop.port = (n % outputs.max(1)) as _;
    }
    routes
}

/// `count` of the Internet's routes, or all if there are fewer, from a file of [`pyasn`], with gateways as in
/// [`routes`]. The choice is random, but always the same.
///
/// # Errors
/// The file cannot be read, or has another format.
pub(crate) fn real_routes(file: &Path, count: usize) -> anyhow::Result<Vec<Route>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let prefixes = pyasn::read(file)?.into_iter();
    let routes = prefixes.map(|(prefix, _)| Route { prefix, hop: hop(&mut random) });
    let routes: Vec<Route> = routes.collect();
    if count < routes.len() {
        return Ok(random.choose_multiple(routes, count));
    }
    Ok(routes)
}

/// Routes of either family as commands for the handler `ctrl` of a lookup element.
pub(crate) fn commands<A: Address>(routes: &[Route<A>]) -> String {
    routes.iter().map(|route| format!("add {route}\n")).collect()
}

/// The entries for the ARP table of each network, `IP ETH`, with the network's number.
pub(crate) fn neighbours() -> Vec<(u8, String)> {
    let hosts = OUTPUTS.flat_map(|network| GATEWAYS.map(move |host| (network, host)));
    hosts
        .map(|(network, host)| {
            (network, format!("10.0.{network}.{host} 02:00:0a:00:{network:02x}:{host:02x}"))
        })
        .collect()
}

/// UDP datagrams from a host at eth0 of the router to destinations that the routes cover.
///
/// # Errors
/// There are no routes.
pub(crate) fn trace(routes: &[Route]) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    trace_of(routes, FRAMES)
}

/// As [`trace`], with this number of datagrams.
///
/// # Errors
/// There are no routes.
pub(crate) fn trace_of(routes: &[Route], count: usize) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 1);
    let frames = (0..count).map(|_| {
        let route = random.choice(routes).context("no routes")?;
        let to = route.prefix.first() | random.u32(..) & !route.prefix.mask();
        frame(Ipv4Addr::from_bits(to), &mut random)
    });
    frames.collect()
}

fn frame(to: Ipv4Addr, random: &mut fastrand::Rng) -> anyhow::Result<[u8; FRAME_LEN]> {
    const HEADERS: usize = 14 + 20 + 8;
    let builder = PacketBuilder::ethernet2([2, 0, 10, 0, 0, 2], [2, 0, 10, 0, 0, 1])
        .ipv4([10, 0, 0, 2], to.octets(), 64)
        .udp(random.u16(1024..), random.u16(1024..));
    let mut payload = [0; FRAME_LEN - HEADERS];
    random.fill(&mut payload);
    let mut frame = Vec::with_capacity(FRAME_LEN);
    builder.write(&mut frame, &payload)?;
    frame.as_slice().try_into().context("a frame of another length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_different_and_the_same_each_time() {
        let made = routes(10_000);
        let networks: HashSet<Prefix> = made.iter().map(|route| route.prefix).collect();
        assert_eq!(networks.len(), 10_000);
        assert_eq!(made, routes(10_000));
    }

    #[test]
    fn real_routes_are_read_and_chosen_the_same_each_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        std::fs::write(path, "; note\n1.0.0.0/24\t1\n2.0.0.0/8\t1\n3.0.0.1/32\t2\n2001::/32\t3\n")
            .unwrap();
        let all = real_routes(path, 10).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].prefix.to_string(), "1.0.0.0/24");
        let two = real_routes(path, 2).unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(two, real_routes(path, 2).unwrap());
    }

    #[test]
    fn every_output_gets_its_part_of_the_routes() {
        let spread = spread(&routes(100), 4);
        for output in 0..4 {
            let routes = spread.iter().filter(|route| route.hop.port == output);
            assert_eq!(routes.count(), 25);
        }
    }

    #[test]
    fn every_frame_has_a_route_and_right_checksums() {
        let routes = routes(1000);
        for frame in trace(&routes).unwrap() {
            let packet = etherparse::PacketHeaders::from_ethernet_slice(&frame).unwrap();
            let Some(etherparse::NetHeaders::Ipv4(ip, _)) = packet.net else { panic!("no IPv4") };
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            let to = u32::from_be_bytes(ip.destination);
            assert!(routes.iter().any(|route| route.prefix.contains(to)));
        }
    }
}
