//! Connections: which flows of packets in both directions there are, and what a packet is to its connection.
//!
//! A connection is in one of four tables, each with a timeout of its own:
//!
//! | table | connections | ends up there |
//! |---|---|---|
//! | opening | without a reply yet | by their first packet |
//! | open | TCP, with packets in both directions | by the reply |
//! | closing | TCP, with a FIN from both sides or an RST | by that |
//! | exchanges | other protocols, with packets in both directions | by the reply |
//!
//! So packets to which nobody replies - scans, floods of SYNs - fill `opening` only, and are forgotten soon. When it is full,
//! any of them makes room: under a flood, most probably one of the flood.

mod fragments;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::headers::dissect::{Flow, Kind, Start, flow_of};
use millrace_core::headers::{
    Header, IcmpHeader, Ipv4Header, Ipv6Header, icmp_type, icmpv6_type, protocol, tcp_flags,
};
use millrace_core::{Footprint, InRound};

use super::key::WideKey;
use super::table::{Fixed, Flows};
use crate::classify::program::State;
use fragments::{Fragment, Fragments};

/// The tables.
pub(super) struct Connections {
    /// With [`REVERSED`] and [`SYN_FIRST`].
    opening: Flows<WideKey, Fixed>,
    /// With [`FIN_SEEN`], and then with [`REVERSED`] for the side that closed first.
    open: Flows<WideKey, Fixed>,
    closing: Flows<WideKey, Fixed>,
    exchanges: Flows<WideKey, Fixed>,
    fragments: Fragments,
    /// Whether a TCP connection may begin with a packet other than a SYN.
    loose: bool,
    /// How often there was no room.
    full: AtomicU64,
}

/// How long connections are remembered after their last packet, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) opening: u64,
    pub(super) open: u64,
    pub(super) closing: u64,
    pub(super) exchanges: u64,
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) opening: usize,
    pub(super) open: usize,
    pub(super) closing: usize,
    pub(super) exchanges: usize,
}

/// The packet went from the higher to the lower address.
const REVERSED: u64 = 1;
/// The connection began with a SYN, so the reply must have one, too.
const SYN_FIRST: u64 = 2;
/// One side has closed.
const FIN_SEEN: u64 = 4;

/// Milliseconds between checks for connections that have timed out.
const INTERVAL: u64 = 1000;

impl Connections {
    /// Room for this many connections in each table.
    pub(super) fn new(capacity: usize, timeouts: Timeouts, loose: bool) -> Self {
        let table = |timeout| Flows::new(capacity, timeout, INTERVAL);
        Self {
            opening: table(timeouts.opening),
            open: table(timeouts.open),
            closing: table(timeouts.closing),
            exchanges: table(timeouts.exchanges),
            fragments: Fragments::default(),
            loose,
            full: AtomicU64::new(0),
        }
    }

    /// What a packet, from its IP header on, is to its connection; which may begin or end with it.
    pub(super) fn see(&self, at: &impl InRound, packet: &[u8], now: u64) -> State {
        let Some(flow) = flow_of(packet, Start::Ip, true) else { return State::Untracked };
        // Only whole packets have ports there.
        match flow.ports.map_or_else(|| Fragment::of(packet), |_| None) {
            None => self.see_whole(at, packet, flow, now),
            Some(part) => self.fragments.see(&part, now, || self.see_whole(at, packet, flow, now)),
        }
    }

    fn see_whole(&self, at: &impl InRound, packet: &[u8], flow: Flow, now: u64) -> State {
        let Some(seen) = Seen::of(packet, flow, true) else { return State::Untracked };
        match seen.role {
            Role::Tcp { flags } => self.see_tcp(at, &seen, flags, now),
            Role::Begins => self.see_exchange(at, &seen, true, now),
            Role::Replies => self.see_exchange(at, &seen, false, now),
            Role::Reports { about } => match about.is_some_and(|sent| self.has_sent(at, sent, now))
            {
                true => State::Related,
                false => State::Invalid,
            },
        }
    }

    fn see_tcp(&self, at: &impl InRound, seen: &Seen, flags: u8, now: u64) -> State {
        let Seen { key, direction, .. } = *seen;
        let ends = flags & (tcp_flags::FIN | tcp_flags::RST) != 0;
        let begins = flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN;
        if let Some(closed) = self.open.known(at, key, now) {
            if ends {
                self.close(at, seen, flags, closed, now);
            }
            return State::Established;
        }
        if !begins && self.closing.knows(at, key, now) {
            return State::Established;
        }
        match self.opening.known(at, key, now) {
            Some(first) if first & REVERSED == direction => State::New,
            Some(_) if flags & tcp_flags::RST != 0 => {
                self.opening.forget(key);
                State::Established
            }
            Some(first) if first & SYN_FIRST != 0 && flags & tcp_flags::SYN == 0 => State::Invalid,
            Some(_) => {
                let state = self.establish(at, &self.open, key, now);
                if ends {
                    self.close(at, seen, flags, 0, now);
                }
                state
            }
            None if begins => {
                // The ports of an old connection are used again.
                self.closing.forget(key);
                self.begin(at, key, direction | SYN_FIRST, now)
            }
            None if self.loose && flags & (tcp_flags::RST | tcp_flags::SYN) == 0 => {
                self.begin(at, key, direction, now)
            }
            None => State::Invalid,
        }
    }

    /// A FIN or an RST of an open connection: the second side's FIN ends it, as any RST does. `closed` says which side has
    /// sent a FIN before.
    fn close(&self, at: &impl InRound, seen: &Seen, flags: u8, closed: u64, now: u64) {
        let Seen { key, direction, .. } = *seen;
        let is_second = closed & FIN_SEEN != 0 && closed & REVERSED != direction;
        if is_second || flags & tcp_flags::RST != 0 {
            self.open.forget(key);
            self.closing.number(at, key, now, || Some(0), |_| ());
        } else if closed & FIN_SEEN == 0 {
            self.open.forget(key);
            self.open.number(at, key, now, || Some(FIN_SEEN | direction), |_| ());
        }
    }

    fn see_exchange(&self, at: &impl InRound, seen: &Seen, may_begin: bool, now: u64) -> State {
        let Seen { key, direction, .. } = *seen;
        if self.exchanges.knows(at, key, now) {
            return State::Established;
        }
        match self.opening.known(at, key, now) {
            Some(first) if first == direction => State::New,
            Some(_) => self.establish(at, &self.exchanges, key, now),
            None if may_begin => self.begin(at, key, direction, now),
            None => State::Invalid,
        }
    }

    fn begin(&self, at: &impl InRound, key: WideKey, first: u64, now: u64) -> State {
        let begin = || self.opening.number(at, key, now, || Some(first), |_| ());
        if begin().is_none() {
            self.full.fetch_add(1, Relaxed);
            self.opening.evict();
            begin();
        }
        State::New
    }

    fn establish(
        &self,
        at: &impl InRound,
        table: &Flows<WideKey, Fixed>,
        key: WideKey,
        now: u64,
    ) -> State {
        if table.number(at, key, now, || Some(0), |_| ()).is_none() {
            return self.no_room();
        }
        self.opening.forget(key);
        State::Established
    }

    fn no_room(&self) -> State {
        self.full.fetch_add(1, Relaxed);
        State::Invalid
    }

    /// Whether a packet of this direction belongs to a connection. Asking does not keep the connection alive.
    fn has_sent(&self, at: &impl InRound, (key, direction): (WideKey, u64), now: u64) -> bool {
        let begun = self.opening.peek(at, key, now);
        let mut others = [&self.open, &self.exchanges, &self.closing].into_iter();
        begun.is_some_and(|first| first & REVERSED == direction)
            || others.any(|table| table.peek(at, key, now).is_some())
    }

    /// How often there was no room.
    pub(super) fn full(&self) -> u64 {
        self.full.load(Relaxed)
    }

    /// How many connections there are at this time.
    pub(super) fn counts(&self, now: u64) -> Counts {
        let count = |table: &Flows<WideKey, Fixed>| table.count(now, |_| ());
        Counts {
            opening: count(&self.opening),
            open: count(&self.open),
            closing: count(&self.closing),
            exchanges: count(&self.exchanges),
        }
    }

    /// Forgets all connections.
    pub(super) fn clear(&self) {
        self.tables().into_iter().for_each(Flows::clear);
        self.fragments.clear();
        self.full.store(0, Relaxed);
    }

    /// Takes over the connections of the old one.
    pub(super) fn take(&self, old: &Self) {
        self.tables().into_iter().zip(old.tables()).for_each(|(table, old)| table.take(old));
        self.fragments.take(&old.fragments);
        self.full.store(old.full(), Relaxed);
    }

    pub(super) fn footprint(&self) -> Footprint {
        let bytes = self.tables().map(Flows::bytes_when_full);
        let fragments = Fragments::bytes_when_full();
        Footprint::tables(bytes.into_iter().fold(fragments, usize::saturating_add))
    }

    fn tables(&self) -> [&Flows<WideKey, Fixed>; 4] {
        [&self.opening, &self.open, &self.closing, &self.exchanges]
    }
}

/// What a packet says about its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// The same for both directions.
    key: WideKey,
    /// [`REVERSED`] or 0.
    direction: u64,
    role: Role,
}

/// What a packet can do to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Tcp {
        flags: u8,
    },
    /// It may begin an exchange.
    Begins,
    /// It only answers, as the replies of ICMP do.
    Replies,
    /// It reports an error about a packet of this connection and direction, if it quotes one.
    Reports {
        about: Option<(WideKey, u64)>,
    },
}

impl Seen {
    /// What a packet of this flow says, if it has a transport header; `None` for what belongs to no connection: later
    /// fragments, truncated packets, the discovery of neighbours.
    fn of(packet: &[u8], flow: Flow, may_report: bool) -> Option<Self> {
        let (number, upper) = upper(packet)?;
        let ports = match protocol::has_ports(number) {
            true => flow.ports.or_else(|| ports(upper)),
            false => None,
        };
        let (ports, role) = match ports {
            Some(ports) if number == protocol::TCP => {
                // Of a quoted packet only the ports may be there.
                let flags = upper.get(13).copied().or((!may_report).then_some(0))?;
                (ports, Role::Tcp { flags })
            }
            Some(ports) => (ports, Role::Begins),
            None if protocol::has_ports(number) => return None,
            None => match Message::of(flow.kind, number, upper)? {
                Message::Other => ((0, 0), Role::Begins),
                // The two sides may use the same identifier.
                Message::Query { id, is_reply: false } => ((id, 0), Role::Begins),
                Message::Query { id, is_reply: true } => ((0, id), Role::Replies),
                // There are no errors about errors (RFC 1122, 3.2.2).
                Message::Error { .. } if !may_report => return None,
                Message::Error { quoted } => {
                    let about = flow_of(quoted, Start::Ip, true);
                    let about = about.and_then(|flow| Self::of(quoted, flow, false));
                    // An error goes to the sender of what it quotes.
                    let about = about.filter(|about| about.source() == flow.destination);
                    (
                        (0, 0),
                        Role::Reports { about: about.map(|about| (about.key, about.direction)) },
                    )
                }
            },
        };
        let ports = u32::from(ports.0) << 16 | u32::from(ports.1);
        // The versions have spaces of their own.
        let space = u32::from(flow.kind == Kind::V4) << 16 | u32::from(number);
        let key = WideKey { source: flow.source, destination: flow.destination, ports, space };
        let (key, turns) = key.ordered();
        Some(Self { key, direction: if turns { REVERSED } else { 0 }, role })
    }

    /// Where the packet came from.
    fn source(&self) -> u128 {
        if self.direction == REVERSED { self.key.destination } else { self.key.source }
    }
}

/// What follows the IP header and its extensions, and its protocol, unless this is a later fragment.
fn upper(packet: &[u8]) -> Option<(u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let (ip, _) = Ipv4Header::view(packet)?;
            Some((ip.protocol, ip.transport(packet)?))
        }
        _ => {
            let (ip, payload) = Ipv6Header::view(packet)?;
            let (protocol, at) = ip.extensions(payload).upper()?;
            Some((protocol, payload.get(at..)?))
        }
    }
}

/// The ports at the start of a transport header.
fn ports(upper: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *upper.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// An ICMP message, of either version.
enum Message<'a> {
    Query {
        id: u16,
        is_reply: bool,
    },
    Error {
        quoted: &'a [u8],
    },
    /// A packet of another protocol.
    Other,
}

impl<'a> Message<'a> {
    /// The message in a packet of this protocol; `None` for messages that are no part of connections.
    fn of(kind: Kind, number: u8, bytes: &'a [u8]) -> Option<Self> {
        let id = || bytes.get(4..)?.first_chunk().map(|id| u16::from_be_bytes(*id));
        let quoted = || bytes.get(IcmpHeader::LEN..);
        match (kind, number) {
            (Kind::V4, protocol::ICMP) => match *bytes.first()? {
                icmp_type::ECHO_REQUEST
                | icmp_type::TIMESTAMP_REQUEST
                | icmp_type::INFORMATION_REQUEST
                | icmp_type::MASK_REQUEST => Some(Self::Query { id: id()?, is_reply: false }),
                icmp_type::ECHO_REPLY
                | icmp_type::TIMESTAMP_REPLY
                | icmp_type::INFORMATION_REPLY
                | icmp_type::MASK_REPLY => Some(Self::Query { id: id()?, is_reply: true }),
                icmp_type::UNREACHABLE
                | icmp_type::SOURCE_QUENCH
                | icmp_type::REDIRECT
                | icmp_type::TIME_EXCEEDED
                | icmp_type::PARAMETER_PROBLEM => Some(Self::Error { quoted: quoted()? }),
                _ => None,
            },
            (Kind::V6, protocol::ICMPV6) => match *bytes.first()? {
                icmpv6_type::ECHO_REQUEST => Some(Self::Query { id: id()?, is_reply: false }),
                icmpv6_type::ECHO_REPLY => Some(Self::Query { id: id()?, is_reply: true }),
                // Types below 128 are errors (RFC 4443, 2.1).
                0..128 => Some(Self::Error { quoted: quoted()? }),
                _ => None,
            },
            _ => Some(Self::Other),
        }
    }
}
