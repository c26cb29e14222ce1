//! Computes the expected frames one by one in a simple way, to check programs before they are timed.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, ensure};
use etherparse::{Ipv4Header, Ipv6Header, UdpHeader};
use millrace_elements::ip::lookup::Route;

use super::capture;
use super::program::captured;
use crate::traffic6::Route6;

/// Finds the longest prefix that contains an address, with a map for each length: slow and simple. There is a table
/// for each family. IPv4 addresses are at the upper end of the number.
pub(crate) struct Table {
    v4: Lengths,
    v6: Lengths,
}

struct Lengths(Vec<HashMap<u128, Hop>>);

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
struct Hop {
    port: u8,
    /// The gateway's number in the port's network.
    host: u8,
}

impl Table {
    /// A table of routes. Of several routes for one network, the last one counts.
    pub(crate) fn new(routes: &[Route], routes6: &[Route6]) -> Self {
        let v4 = routes.iter().map(|route| {
            let [.., host] = route.hop.gateway.octets();
            let hop = Hop { port: route.hop.port as u8, host };
            (upper(route.prefix.first()), route.prefix.length(), hop)
        });
        let v6 = routes6.iter().map(|route| {
            let hop = Hop { port: route.hop.port as u8, host: 0 };
            (route.prefix.first(), route.prefix.length(), hop)
        });
        Self { v4: Lengths::new(v4), v6: Lengths::new(v6) }
    }
}

/// An address of IPv4 at the upper end.
fn upper(address: u32) -> u128 {
    u128::from(address) << 96
}

impl Lengths {
    fn new(routes: impl Iterator<Item = (u128, u8, Hop)>) -> Self {
        let mut lengths = vec![HashMap::new(); 129];
        for (network, length, hop) in routes {
            if let Some(length) = lengths.get_mut(usize::from(length)) {
                length.insert(network, hop);
            }
        }
        Self(lengths)
    }

    fn lookup(&self, address: u128) -> Option<Hop> {
        let lengths = self.0.iter().enumerate().filter(|(_, networks)| !networks.is_empty());
        lengths.rev().find_map(|(length, networks)| {
            let mask = u128::MAX.checked_shl(128 - length as u32).unwrap_or(0);
            networks.get(&(address & mask)).copied()
        })
    }
}

/// What a program does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Port 0 gives back what it got.
    Nothing,
    /// Port 0 gives it back with the Ethernet addresses swapped.
    Swap,
    /// The route's port sends it, one hop less, between these addresses.
    Route(Addresses),
    /// IPv4 and IPv6 are routed, between [`Addresses::OfPort`]; what is neither goes back as by `Swap`.
    Mixed,
    /// Port 1 sends it, one hop less, from 10.0.1.1 and a port that its flow has: the first flow of the trace 1024,
    /// each later one the next.
    Translate,
    /// Port 1 sends it, one hop less.
    Pass,
    /// Rules choose the port that gives it back.
    Judge,
}

/// The Ethernet addresses of routed frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// To host 2 of the port's network, as `minimal-router.click` has it.
    OfPort,
    /// To the gateway, as its ARP table has it.
    OfGateway,
    /// To host 2 of the route's network, all by port 0.
    OfBranch,
    /// As l3fwd has them: its own default for hosts, and net_pcap's for ports.
    OfL3fwd,
}

impl Treatment {
    /// The port by which a frame leaves, and what has become of it.
    ///
    /// # Errors
    /// It is no IPv4 packet, or has no route.
    pub(crate) fn of(self, frame: &[u8], table: &Table) -> anyhow::Result<(usize, Vec<u8>)> {
        let (header, payload) = frame.split_at_checked(14).context("a frame without a header")?;
        match self {
            Self::Nothing => Ok((0, frame.to_vec())),
            Self::Swap => {
                let [to, from, kind] = [0..6, 6..12, 12..14].map(|part| header.get(part));
                let parts = [from, to, kind, Some(payload)];
                Ok((0, parts.into_iter().flatten().flatten().copied().collect()))
            }
            Self::Route(addresses) => route(addresses, payload, table),
            Self::Pass => Ok((1, sent_by_port_1(payload, |_, _| {})?)),
            Self::Translate => anyhow::bail!("a translator has to know the flows before"),
            Self::Judge => anyhow::bail!("a filter has to know the rules"),
            Self::Mixed => match header.get(12..) {
                Some([0x08, 0x00]) => route(Addresses::OfPort, payload, table),
                Some([0x86, 0xdd]) => route6(payload, table),
                _ => Self::Swap.of(frame, table),
            },
        }
    }
}

impl Treatment {
    /// Frames of each way through a program together, in order: those of one EtherType, and where the ways join again
    /// in front of a port, with the same Ethernet addresses.
    fn by_way(self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let way = if self == Self::Route(Addresses::OfBranch) { 0..14 } else { 12..14 };
        let mut frames = frames.to_vec();
        frames.sort_by(|one, other| one.get(way.clone()).cmp(&other.get(way.clone())));
        frames
    }
}

/// The ports that flows have been given.
#[derive(Default)]
struct Translator {
    ports: HashMap<Vec<u8>, u16>,
    /// A port together with where its flow goes to, which no two flows share.
    used: HashSet<(u16, Vec<u8>)>,
    /// How many ports have been looked at.
    looked: usize,
}

impl Translator {
    fn of(&mut self, frame: &[u8]) -> anyhow::Result<(usize, Vec<u8>)> {
        let packet = frame.get(14..).context("a frame without a packet")?;
        // Addresses and ports; there are no options.
        let flow = packet.get(12..24).context("a packet without ports")?.to_vec();
        let port = match self.ports.get(&flow) {
            Some(port) => *port,
            None => self.next(flow)?,
        };
        let sent = sent_by_port_1(packet, |ip, datagram| {
            ip.source = [10, 0, 1, 1];
            let Ok((mut udp, payload)) = UdpHeader::from_slice(datagram) else { return };
            udp.source_port = port;
            if let Ok(sum) = udp.calc_checksum_ipv4(ip, payload) {
                udp.checksum = sum;
            }
            let bytes = [&udp.to_bytes()[..], payload].concat();
            *datagram = bytes;
        })?;
        Ok((1, sent))
    }
}

impl Translator {
    /// The next port that is free for a flow.
    fn next(&mut self, flow: Vec<u8>) -> anyhow::Result<u16> {
        let [address, port] = [4..8, 10..12].map(|part| flow.get(part).unwrap_or_default());
        let to = [address, port].concat();
        loop {
            let port = u16::try_from(1024 + self.looked % (65_536 - 1024))?;
            self.looked += 1;
            if self.used.insert((port, to.clone())) {
                self.ports.insert(flow, port);
                return Ok(port);
            }
        }
    }
}

/// A packet with one hop less, in a frame from port 1 to its neighbour, after a change.
fn sent_by_port_1(
    packet: &[u8],
    change: impl FnOnce(&mut Ipv4Header, &mut Vec<u8>),
) -> anyhow::Result<Vec<u8>> {
    let (mut ip, rest) = Ipv4Header::from_slice(packet)?;
    let mut rest = rest.to_vec();
    ip.time_to_live = ip.time_to_live.checked_sub(1).context("the TTL is 0")?;
    change(&mut ip, &mut rest);
    ip.header_checksum = ip.calc_header_checksum();
    let mut sent = Addresses::OfPort.of(Hop { port: 1, host: 2 }).concat();
    sent.extend([8, 0]);
    ip.write_raw(&mut sent)?;
    sent.extend(rest);
    Ok(sent)
}

fn route(addresses: Addresses, packet: &[u8], table: &Table) -> anyhow::Result<(usize, Vec<u8>)> {
    let (mut ip, rest) = Ipv4Header::from_slice(packet)?;
    let hop = table.v4.lookup(upper(u32::from_be_bytes(ip.destination))).context("no route")?;
    ip.time_to_live = ip.time_to_live.checked_sub(1).context("the TTL is 0")?;
    ip.header_checksum = match ip.calc_header_checksum() {
        // It adds one to the old sum, and so comes to the other zero that there is in one's complement.
        0 if addresses == Addresses::OfL3fwd => 0xffff,
        sum => sum,
    };
    let mut sent = addresses.of(hop).concat();
    sent.extend([8, 0]);
    ip.write_raw(&mut sent)?;
    sent.extend(rest);
    let port = if addresses == Addresses::OfBranch { 0 } else { hop.port };
    Ok((port.into(), sent))
}

fn route6(packet: &[u8], table: &Table) -> anyhow::Result<(usize, Vec<u8>)> {
    let (mut ip, rest) = Ipv6Header::from_slice(packet)?;
    let hop = table.v6.lookup(u128::from_be_bytes(ip.destination)).context("no route for IPv6")?;
    ip.hop_limit = ip.hop_limit.checked_sub(1).context("the hop limit is 0")?;
    let mut sent = Addresses::OfPort.of(hop).concat();
    sent.extend([0x86, 0xdd]);
    ip.write(&mut sent)?;
    sent.extend(rest);
    Ok((hop.port.into(), sent))
}

impl Addresses {
    /// Destination and source of a frame that takes a route.
    fn of(self, Hop { port, host }: Hop) -> [[u8; 6]; 2] {
        match self {
            Self::OfPort | Self::OfBranch => [[2, 0, 10, 0, port, 2], [2, 0, 10, 0, port, 1]],
            Self::OfGateway => [[2, 0, 10, 0, port, host], [2, 0, 10, 0, port, 1]],
            Self::OfL3fwd => [[2, 0, 0, 0, 0, port], [2, b'p', b'c', b'a', b'p', port]],
        }
    }
}

/// The frames that each of `ports` ports is to transmit for a trace, in order.
///
/// # Errors
/// As [`Treatment::of`]; or one is to leave by a port that there is not.
pub(crate) fn expected<F: AsRef<[u8]>>(
    treatment: Treatment,
    table: &Table,
    trace: &[F],
    ports: usize,
) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    let mut expected = vec![Vec::new(); ports];
    let mut translator = Translator::default();
    for frame in trace {
        let (port, sent) = match treatment {
            Treatment::Translate => translator.of(frame.as_ref())?,
            other => other.of(frame.as_ref(), table)?,
        };
        expected.get_mut(port).with_context(|| format!("no port {port}"))?.push(sent);
    }
    Ok(expected)
}

/// The frames that each of `ports` ports is to transmit where rules choose a port for each frame, and leave the frame
/// as it is.
///
/// # Errors
/// One is to leave by a port that there is not.
pub(crate) fn judged<F: AsRef<[u8]>>(
    trace: &[F],
    chosen: &[usize],
    ports: usize,
) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    let mut expected = vec![Vec::new(); ports];
    for (frame, &port) in trace.iter().zip(chosen) {
        let frames = expected.get_mut(port).with_context(|| format!("no port {port}"))?;
        frames.push(frame.as_ref().to_vec());
    }
    Ok(expected)
}

/// Holds what the ports transmitted, which is in files in `folder`, against what they should have. Frames that take
/// one way through a program must be in order; those that take different ones may overtake one another.
///
/// # Errors
/// Something differs.
pub(crate) fn check(
    treatment: Treatment,
    expected: &[Vec<Vec<u8>>],
    folder: &Path,
) -> anyhow::Result<()> {
    for (port, expected) in expected.iter().enumerate() {
        let sent = treatment.by_way(&capture::read(&captured(folder, port))?);
        let expected = treatment.by_way(expected);
        ensure!(
            sent.len() == expected.len(),
            "port {port} transmits {} frames, not {}",
            sent.len(),
            expected.len()
        );
        let differs = sent.iter().zip(&expected).position(|(sent, expected)| sent != expected);
        if let Some(n) = differs {
            let frame = |frames: &[Vec<u8>]| frames.get(n).map(|frame| hex(frame));
            anyhow::bail!(
                "frame {n} of port {port} is not as expected:\n{}\n{}",
                frame(&sent).unwrap_or_default(),
                frame(&expected).unwrap_or_default()
            );
        }
    }
    Ok(())
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use millrace_elements::ip::lookup::{self as elements, Prefix};

    use super::*;
    use crate::{traffic, traffic6};

    #[test]
    fn the_longest_prefix_decides() {
        let gateway = std::net::Ipv4Addr::new(10, 0, 1, 2);
        let route = |network, length, port| Route {
            prefix: Prefix::new(network, length),
            hop: elements::Hop { gateway, port },
        };
        let routes =
            [route(0x0100_0000, 8, 1), route(0x0102_0000, 16, 2), route(0x0102_0304, 32, 3)];
        let table = Table::new(&routes, &[]);
        let output = |address| table.v4.lookup(upper(address)).map(|hop| hop.port);
        assert_eq!(output(0x0102_0304), Some(3));
        assert_eq!(output(0x0102_0305), Some(2));
        assert_eq!(output(0x0103_0304), Some(1));
        assert_eq!(output(0x0203_0304), None);
    }

    #[test]
    fn frames_are_treated_as_the_rfcs_say() {
        let routes = traffic::routes(100);
        let table = Table::new(&routes, &[]);
        let frame = traffic::trace(&routes).unwrap()[0];
        assert_eq!(Treatment::Nothing.of(&frame, &table).unwrap(), (0, frame.to_vec()));

        let (_, swapped) = Treatment::Swap.of(&frame, &table).unwrap();
        assert_eq!(swapped[..6], frame[6..12]);
        assert_eq!(swapped[6..12], frame[..6]);
        assert_eq!(swapped[12..], frame[12..]);

        let (port, routed) = Treatment::Route(Addresses::OfGateway).of(&frame, &table).unwrap();
        let packet = etherparse::PacketHeaders::from_ethernet_slice(&routed).unwrap();
        let Some(etherparse::NetHeaders::Ipv4(ip, _)) = packet.net else { panic!("no IPv4") };
        assert_eq!((ip.time_to_live, ip.header_checksum), (63, ip.calc_header_checksum()));
        assert_eq!(routed[4], port as u8);
        assert_eq!(routed[34..], frame[34..]);
    }

    #[test]
    fn mixed_frames_go_three_ways() {
        let routes = traffic::routes(100);
        let routes6 = &traffic6::routes(100)[..1];
        let table = Table::new(&routes, routes6);
        let datagrams = traffic::trace_of(&routes, 1).unwrap();
        for frame in traffic6::mixed(datagrams, routes6).unwrap() {
            let (port, sent) = Treatment::Mixed.of(&frame, &table).unwrap();
            let alone = |treatment: Treatment| treatment.of(&frame, &table).unwrap();
            match frame[12..14] {
                [0x08, 0x00] => {
                    assert_eq!((port, sent), alone(Treatment::Route(Addresses::OfPort)));
                }
                [0x86, 0xdd] => {
                    let output = routes6[0].hop.port;
                    assert_eq!(port, output as usize);
                    assert_eq!(sent[..6], [2, 0, 10, 0, output as u8, 2]);
                    assert_eq!((frame[21], sent[21]), (64, 63));
                    assert_eq!((&sent[12..21], &sent[22..]), (&frame[12..21], &frame[22..]));
                }
                _ => assert_eq!((port, sent), alone(Treatment::Swap)),
            }
        }
    }
}
