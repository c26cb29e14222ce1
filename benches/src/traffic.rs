//! What the router is given: a routing table and frames to destinations in it, always the same.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, ensure};
use etherparse::{IpNumber, PacketBuilder};

/// Bytes of a frame: the shortest that Ethernet has, 64 bytes less the check sequence, which
/// devices do not deliver.
pub(crate) const FRAME_LEN: usize = 60;

/// Frames of a trace: too many for the processor's smallest cache and few enough for the next one,
/// where a card's traffic is to be found.
const FRAMES: usize = 1024;

/// The outputs of the lookup element that routes lead to; output `n` is the network 10.0.n.0/24.
const OUTPUTS: std::ops::RangeInclusive<u8> = 1..=3;

/// The gateways on each network: its hosts with these numbers.
const GATEWAYS: std::ops::RangeInclusive<u8> = 2..=17;

/// Where random numbers start, for the table and for the trace.
const SEED: u64 = 0x6d69_6c6c;

/// A route to a network by a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The network's first address.
    pub(crate) network: u32,
    /// Bits of the prefix.
    pub(crate) length: u8,
    /// The output of the lookup element, and the port.
    pub(crate) output: u8,
    /// The next router.
    pub(crate) gateway: Ipv4Addr,
}

impl Route {
    /// The bits that addresses in the network have in common.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }
}

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
        let output = random.u8(OUTPUTS);
        let gateway = Ipv4Addr::new(10, 0, output, random.u8(GATEWAYS));
        let mut route = Route { network: 0, length, output, gateway };
        route.network = (first << 24 | random.u32(..1 << 24)) & route.mask();
        if !matches!(first, 10 | 127) && seen.insert((route.network, length)) {
            routes.push(route);
        }
    }
    routes
}

/// A route to an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route6 {
    /// The network's first address.
    pub(crate) network: u128,
    /// Bits of the prefix.
    pub(crate) length: u8,
    /// The output of the lookup element, and the port.
    pub(crate) output: u8,
}

impl Route6 {
    /// The bits that addresses in the network have in common.
    fn mask(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0)
    }
}

/// `count` of the Internet's routes, or all if there are not so many, by gateways as [`routes`] has them: a
/// prefix on each line of the file, whatever follows, and `;` before what is no route (as the `.dat` files
/// of pyasn have them, made from RouteViews). Which ones is random, and always the same.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn real_routes(file: &Path, count: usize) -> anyhow::Result<Vec<Route>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let prefixes = prefixes::<Ipv4Addr>(file)?.into_iter().map(|(network, length)| {
        let output = random.u8(OUTPUTS);
        let gateway = Ipv4Addr::new(10, 0, output, random.u8(GATEWAYS));
        Route { network: network.to_bits(), length, output, gateway }
    });
    let mut routes: Vec<Route> = prefixes.collect();
    let sound = |route: &Route| route.length <= 32 && route.network & !route.mask() == 0;
    ensure!(routes.iter().all(sound), "{}: a prefix that is no network", file.display());
    if count < routes.len() {
        routes = random.choose_multiple(routes, count);
    }
    Ok(routes)
}

/// The Internet's routes for IPv6, of a file such as [`real_routes`] reads.
///
/// # Errors
/// As [`real_routes`].
pub(crate) fn real_routes6(file: &Path) -> anyhow::Result<Vec<Route6>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let prefixes = prefixes::<Ipv6Addr>(file)?.into_iter().map(|(network, length)| Route6 {
        network: network.to_bits(),
        length,
        output: random.u8(OUTPUTS),
    });
    let routes: Vec<Route6> = prefixes.collect();
    let sound = |route: &Route6| route.length <= 128 && route.network & !route.mask() == 0;
    ensure!(routes.iter().all(sound), "{}: a prefix that is no network", file.display());
    Ok(routes)
}

/// The prefixes of a file that are of this family; those of the other one are left out.
fn prefixes<A: FromStr>(file: &Path) -> anyhow::Result<Vec<(A, u8)>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = text.lines().filter(|line| !line.starts_with(';'));
    let prefix = |line: &str| {
        let prefix = line.split_whitespace().next().and_then(|word| word.split_once('/'));
        let (network, length) = prefix.with_context(|| format!("‘{line}’ has no prefix"))?;
        // Each family's addresses are something else to the other.
        network.parse().ok().map(|network| Ok((network, length.parse()?))).transpose()
    };
    let prefixes = lines.filter_map(|line| prefix(line).transpose());
    prefixes.collect::<anyhow::Result<_>>().with_context(|| file.display().to_string())
}

/// The routes as commands for the handler `ctrl` of a lookup element.
pub(crate) fn commands(routes: &[Route]) -> String {
    let mut text = String::with_capacity(routes.len() * 40);
    for Route { network, length, output, gateway } in routes {
        let network = Ipv4Addr::from_bits(*network);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "add {network}/{length} {gateway} {output}");
    }
    text
}

/// Routes for IPv6 as commands for the handler `ctrl` of a lookup element.
pub(crate) fn commands6(routes: &[Route6]) -> String {
    let mut text = String::with_capacity(routes.len() * 40);
    for Route6 { network, length, output } in routes {
        let network = Ipv6Addr::from_bits(*network);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "add {network}/{length} {output}");
    }
    text
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

/// UDP datagrams from a host beside eth0 of the router, through it, to destinations that are
/// covered by routes.
///
/// # Errors
/// There are no routes.
pub(crate) fn trace(routes: &[Route]) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    trace_of(routes, FRAMES)
}

/// As [`trace`], with so many datagrams.
///
/// # Errors
/// There are no routes.
pub(crate) fn trace_of(routes: &[Route], count: usize) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 1);
    let frames = (0..count).map(|_| {
        let route = random.choice(routes).context("no routes")?;
        let to = Ipv4Addr::from_bits(route.network | random.u32(..) & !route.mask());
        frame(to, &mut random)
    });
    frames.collect()
}

/// A third each, in turns: frames of a protocol that nobody routes, datagrams as [`trace`] has them, and
/// IPv6 packets to destinations that are covered by routes.
///
/// # Errors
/// There are no routes.
pub(crate) fn mixed_trace(
    routes: &[Route],
    routes6: &[Route6],
    count: usize,
) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    let mut random = fastrand::Rng::with_seed(SEED ^ 2);
    let datagrams = trace_of(routes, count)?;
    let frames = datagrams.into_iter().enumerate().map(|(n, datagram)| match n % 3 {
        0 => Ok(datagram),
        1 => {
            let route = random.choice(routes6).context("no routes for IPv6")?;
            frame6(
                Ipv6Addr::from_bits(route.network | random.u128(..) & !route.mask()),
                &mut random,
            )
        }
        _ => {
            // An EtherType for experiments (IEEE 802).
            let mut other = datagram;
            other[12..14].copy_from_slice(&[0x88, 0xb5]);
            Ok(other)
        }
    });
    frames.collect()
}

/// An IPv6 packet that holds nothing of another protocol: a datagram would not fit into the shortest
/// frame.
fn frame6(to: Ipv6Addr, random: &mut fastrand::Rng) -> anyhow::Result<[u8; FRAME_LEN]> {
    const HEADERS: usize = 14 + 40;
    let from: Ipv6Addr = "2001:db8::2".parse()?;
    let builder = PacketBuilder::ethernet2([2, 0, 10, 0, 0, 2], [2, 0, 10, 0, 0, 1]).ipv6(
        from.octets(),
        to.octets(),
        64,
    );
    let mut payload = [0; FRAME_LEN - HEADERS];
    random.fill(&mut payload);
    let mut frame = Vec::with_capacity(FRAME_LEN);
    builder.write(&mut frame, IpNumber::IPV6_NO_NEXT_HEADER, &payload)?;
    frame.as_slice().try_into().context("a frame of another length")
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
        let networks: HashSet<(u32, u8)> =
            made.iter().map(|route| (route.network, route.length)).collect();
        assert_eq!(networks.len(), 10_000);
        assert!(made.iter().all(|route| route.network & !route.mask() == 0));
        assert_eq!(made, routes(10_000));
    }

    #[test]
    fn real_routes_are_read_and_chosen_the_same_each_time() {
        let file = std::env::temp_dir().join(format!("routes-{}", std::process::id()));
        std::fs::write(
            &file,
            "; note\n1.0.0.0/24\t15169\n2.0.0.0/8\t1\n3.0.0.1/32\t2\n2001::/32\t3\n",
        )
        .unwrap();
        let six = real_routes6(&file).unwrap();
        assert_eq!(six.len(), 1);
        assert_eq!((six[0].network >> 96, six[0].length), (0x2001_0000, 32));
        let all = real_routes(&file, 10).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].network, all[0].length), (0x0100_0000, 24));
        let two = real_routes(&file, 2).unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(two, real_routes(&file, 2).unwrap());
        std::fs::write(&file, "1.0.0.1/24\t15169\n").unwrap();
        assert!(real_routes(&file, 2).is_err());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn every_frame_has_a_route_and_right_checksums() {
        let routes = routes(1000);
        for frame in trace(&routes).unwrap() {
            let packet = etherparse::PacketHeaders::from_ethernet_slice(&frame).unwrap();
            let Some(etherparse::NetHeaders::Ipv4(ip, _)) = packet.net else { panic!("no IPv4") };
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            let to = u32::from_be_bytes(ip.destination);
            assert!(routes.iter().any(|route| to & route.mask() == route.network));
        }
    }
}
