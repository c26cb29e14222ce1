//! A host of the lab: it answers ARP and ping, echoes UDP, puts fragments together.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use millrace_core::checksum;
use millrace_core::headers::{
    ArpHeader, Header, Ipv4Header, UdpHeader, arp_operation, ether_type, icmp_type, ports, protocol,
};
use millrace_core::net::{EtherAddress, Ipv4Prefix};

use super::frame::{Datagram, Frame, arp, ethernet, framed, icmp, udp};

/// The UDP port that hosts echo.
pub(super) const ECHO_PORT: u16 = 7;

/// A host on a network.
pub(super) struct Host {
    pub(super) ip: Ipv4Addr,
    pub(super) ether: EtherAddress,
    pub(super) network: Ipv4Prefix,
    pub(super) gateway: Option<Ipv4Addr>,
    /// Frames that it wants to send.
    pub(super) outbox: VecDeque<Frame>,
    arp: HashMap<Ipv4Addr, EtherAddress>,
    unresolved: HashMap<Ipv4Addr, Vec<Vec<u8>>>,
    fragments: HashMap<(Ipv4Addr, u16), Fragments>,
}

#[derive(Default)]
struct Fragments {
    parts: Vec<(usize, Vec<u8>)>,
    total: Option<usize>,
}

/// What a host notices when a frame comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An answer came to something that this host sent with this identifier.
    Answer(u16),
    /// A datagram was echoed.
    Echoed,
    /// A datagram was echoed that came in fragments.
    Reassembled,
    /// An ICMP error came about something that this host sent with this identifier.
    Error { kind: u8, code: u8, id: u16 },
    /// A checksum was wrong.
    BadChecksum,
}

impl Host {
    pub(super) fn new(
        ip: Ipv4Addr,
        ether: EtherAddress,
        network: Ipv4Prefix,
        gateway: Option<Ipv4Addr>,
    ) -> Self {
        Self {
            ip,
            ether,
            network,
            gateway,
            outbox: VecDeque::new(),
            arp: HashMap::new(),
            unresolved: HashMap::new(),
            fragments: HashMap::new(),
        }
    }

    /// Sends a packet: to its destination on this network, else to the gateway.
    pub(super) fn send(&mut self, datagram: &Datagram) {
        let direct = self.network.contains(datagram.dst);
        let next = self.gateway.filter(|_| !direct).unwrap_or(datagram.dst);
        self.send_to(next, datagram);
    }

    /// Sends a packet by a neighbour.
    pub(super) fn send_to(&mut self, next: Ipv4Addr, datagram: &Datagram) {
        let packet = datagram.to_bytes();
        match self.arp.get(&next) {
            Some(&ether) => {
                self.outbox.push_back(framed(self.ether, ether, ether_type::IPV4, &packet));
            }
            None => {
                let waiting = self.unresolved.entry(next).or_default();
                waiting.push(packet);
                if waiting.len() == 1 {
                    let message = ArpHeader::new(
                        arp_operation::REQUEST,
                        (self.ether, self.ip),
                        (EtherAddress([0; 6]), next),
                    );
                    self.outbox.push_back(arp(EtherAddress([0xff; 6]), &message));
                }
            }
        }
    }

    /// Takes a frame from the wire.
    pub(super) fn take(&mut self, frame: &[u8]) -> Option<Event> {
        let (header, payload) = ethernet(frame)?;
        if header.dst != self.ether && !header.dst.is_group() {
            return None;
        }
        match header.ether_type.get() {
            ether_type::ARP => {
                self.take_arp(payload);
                None
            }
            ether_type::IPV4 => self.take_ip(payload),
            _ => None,
        }
    }

    /// How many addresses it has found out.
    pub(super) fn neighbours(&self) -> usize {
        self.arp.len()
    }

    fn take_arp(&mut self, message: &[u8]) {
        let Some((message, _)) = ArpHeader::view(message) else { return };
        if !message.is_ethernet_ipv4() || message.target() != self.ip {
            return;
        }
        let (from, ether) = (message.sender(), message.sender_ether);
        self.arp.insert(from, ether);
        for packet in self.unresolved.remove(&from).unwrap_or_default() {
            self.outbox.push_back(framed(self.ether, ether, ether_type::IPV4, &packet));
        }
        if message.operation.get() == arp_operation::REQUEST {
            let reply = ArpHeader::new(arp_operation::REPLY, (self.ether, self.ip), (ether, from));
            self.outbox.push_back(arp(ether, &reply));
        }
    }

    fn take_ip(&mut self, packet: &[u8]) -> Option<Event> {
        let (ip, _) = Ipv4Header::view(packet)?;
        let header_len = ip.header_len();
        let packet = packet.get(..usize::from(ip.total_len.get()))?;
        let (header, payload) = packet.split_at_checked(header_len)?;
        if ip.destination() != self.ip {
            return None;
        }
        if !checksum::verify(header) {
            return Some(Event::BadChecksum);
        }
        let (src, protocol) = (ip.source(), ip.protocol);
        if !ip.is_fragment() {
            return self.take_payload(src, protocol, payload, false);
        }
        let fragments = self.fragments.entry((src, ip.id.get())).or_default();
        let offset = ip.fragment_offset();
        fragments.parts.push((offset, payload.to_vec()));
        if !ip.more_fragments() {
            fragments.total = Some(offset + payload.len());
        }
        let whole = fragments.whole()?;
        self.fragments.remove(&(src, ip.id.get()));
        self.take_payload(src, protocol, &whole, true)
    }

    fn take_payload(
        &mut self,
        src: Ipv4Addr,
        protocol: u8,
        payload: &[u8],
        reassembled: bool,
    ) -> Option<Event> {
        match protocol {
            protocol::ICMP => self.take_icmp(src, payload),
            protocol::UDP => {
                let (udp, _) = UdpHeader::view(payload)?;
                let sum = checksum::Sum::of_pseudo_v4(src, self.ip, protocol, udp.len.get());
                if !sum.add_bytes(payload).is_right() {
                    return Some(Event::BadChecksum);
                }
                self.take_udp(src, payload, reassembled)
            }
            _ => None,
        }
    }

    fn take_icmp(&mut self, src: Ipv4Addr, message: &[u8]) -> Option<Event> {
        if !checksum::verify(message) {
            return Some(Event::BadChecksum);
        }
        let (&[kind, code, _, _, a, b, c, d], rest) = message.split_first_chunk()?;
        match kind {
            icmp_type::ECHO_REQUEST => {
                let reply = icmp(icmp_type::ECHO_REPLY, 0, [a, b, c, d], rest);
                self.send(&Datagram::new(self.ip, src, protocol::ICMP, reply));
                Some(Event::Echoed)
            }
            icmp_type::ECHO_REPLY => Some(Event::Answer(u16::from_be_bytes([a, b]))),
            _ => {
                let (quoted, after) = Ipv4Header::view(rest)?;
                let transport = after.get(quoted.header_len().checked_sub(Ipv4Header::LEN)?..)?;
                let id = match quoted.protocol {
                    protocol::ICMP => u16::from_be_bytes([*transport.get(4)?, *transport.get(5)?]),
                    _ => ports(transport)?.0,
                };
                Some(Event::Error { kind, code, id })
            }
        }
    }

    fn take_udp(&mut self, src: Ipv4Addr, datagram: &[u8], reassembled: bool) -> Option<Event> {
        let (from, to) = ports(datagram)?;
        if to != ECHO_PORT {
            return Some(Event::Answer(to));
        }
        const MOST: usize = 64;
        let data = datagram.get(8..)?;
        let data = data.get(..MOST).unwrap_or(data);
        let reply = udp((self.ip, ECHO_PORT), (src, from), data);
        self.send(&Datagram::new(self.ip, src, protocol::UDP, reply));
        Some(if reassembled { Event::Reassembled } else { Event::Echoed })
    }
}

impl Fragments {
    /// The payload, when every part of it is there.
    fn whole(&mut self) -> Option<Vec<u8>> {
        let total = self.total?;
        self.parts.sort_by_key(|part| part.0);
        let mut whole = Vec::with_capacity(total);
        for (offset, part) in &self.parts {
            if *offset == whole.len() {
                whole.extend(part);
            }
        }
        (whole.len() == total).then_some(whole)
    }
}
