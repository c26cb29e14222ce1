//! What the hosts of the lab try: each exchange sends something and knows what should come back.

use std::net::Ipv4Addr;

use millrace_core::headers::{icmp_type, protocol};

use super::frame::{Datagram, icmp, udp};
use super::host::{ECHO_PORT, Event, Host};

/// Something that a host tries.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) kind: Kind,
    /// Index of the host that begins.
    pub(super) host: usize,
    to: Ipv4Addr,
    /// The neighbour that the packet goes by, if not the usual one.
    by: Option<Ipv4Addr>,
    /// Packets to send in all.
    packets: u32,
    sent: u32,
    /// Packets that were answered as they should have been.
    pub(super) answered: u32,
    /// For redirects: which of the two that are due, the redirect and the answer, came.
    came: [bool; 2],
}

/// What is tried, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Pings to the router's address.
    PingRouter,
    /// Pings to a host on another network.
    Ping,
    /// A ping whose TTL ends at the router.
    Expire,
    /// A ping to a network that there is no route to.
    NoRoute,
    /// A datagram longer than the next link takes.
    Fragment,
    /// The same, with the order not to fragment.
    DontFragment,
    /// A ping with the record route option.
    RecordRoute,
    /// A ping to a neighbour that takes the way by the router.
    Redirect,
    /// UDP datagrams to a host on another network, which echoes them.
    Flow,
    /// The same, with texts that a pattern matcher should raise an alert for.
    Attack,
}

impl Kind {
    /// What is tried, in the words of the report.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::PingRouter => ("ping the router", "echo replies"),
            Self::Ping => ("ping other hosts", "echo replies"),
            Self::Expire => ("ping with TTL 1", "time exceeded"),
            Self::NoRoute => ("ping an unknown network", "unreachable"),
            Self::Fragment => ("send 1,900 bytes", "reassembled and echoed"),
            Self::DontFragment => ("send 1,900 bytes, DF set", "fragmentation needed"),
            Self::RecordRoute => ("ping with IP options", "echo replies"),
            Self::Redirect => ("ping a neighbour by the router", "redirect and echo reply"),
            Self::Flow => ("exchange UDP flows", "datagrams echoed"),
            Self::Attack => ("send suspicious texts", "echoed, where let through"),
        }
    }

    /// The key in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::PingRouter => "ping_router",
            Self::Ping => "ping",
            Self::Expire => "ttl_expired",
            Self::NoRoute => "no_route",
            Self::Fragment => "fragment",
            Self::DontFragment => "dont_fragment",
            Self::RecordRoute => "record_route",
            Self::Redirect => "redirect",
            Self::Flow => "flow",
            Self::Attack => "attack",
        }
    }
}

/// Packets of one exchange on their way at a time.
const WINDOW: u32 = 16;

/// What a host sends that wants to be noticed: places of a web server that nobody has any business at, shell commands.
const ATTACKS: &[&[u8]] = &[
    b"GET /../../../etc/passwd HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET /scripts/..%c0%af../winnt/system32/CMD.EXE?/c+dir HTTP/1.0\r\n\r\n",
    b"POST /login HTTP/1.1\r\n\r\nuser=admin' OR '1'='1' -- &password=x",
    b"\x90\x90\x90\x90\x31\xc0\x50\x68//sh\x68/bin\x89\xe3\x00",
    b"GET / HTTP/1.1\r\nUser-Agent: () { :; }; /bin/sh -c id\r\n\r\n",
];

impl Exchange {
    pub(super) fn new(kind: Kind, host: usize, to: Ipv4Addr) -> Self {
        let packets = match kind {
            Kind::PingRouter | Kind::Ping => 5,
            Kind::Flow => 500,
            Kind::Attack => ATTACKS.len() as u32,
            _ => 1,
        };
        Self { kind, host, to, by: None, packets, sent: 0, answered: 0, came: [false; 2] }
    }

    pub(super) fn by(self, neighbour: Ipv4Addr) -> Self {
        Self { by: Some(neighbour), ..self }
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn is_done(&self) -> bool {
        self.answered >= self.packets
    }

    /// Sends what may be sent now. Returns whether anything was.
    pub(super) fn go_on(&mut self, id: u16, lost: u32, host: &mut Host, length: usize) -> bool {
        let before = self.sent;
        while self.sent < self.packets && self.sent < self.answered + lost + WINDOW {
            self.send(id, host, length);
            self.sent += 1;
        }
        self.sent > before
    }

    /// Packets that were sent and not answered.
    pub(super) fn outstanding(&self) -> u32 {
        self.sent.saturating_sub(self.answered)
    }

    /// Takes what came about the exchange.
    pub(super) fn take(&mut self, event: Event) {
        let right = match (self.kind, event) {
            (Kind::Expire, Event::Error { kind, .. }) => kind == icmp_type::TIME_EXCEEDED,
            (Kind::NoRoute, Event::Error { kind, .. }) => kind == icmp_type::UNREACHABLE,
            (Kind::DontFragment, Event::Error { kind, code, .. }) => {
                kind == icmp_type::UNREACHABLE && code == 4
            }
            (Kind::Redirect, event) => {
                match event {
                    Event::Error { kind: icmp_type::REDIRECT, .. } => self.came[0] = true,
                    Event::Answer(_) => self.came[1] = true,
                    _ => {}
                }
                self.came == [true; 2]
            }
            (Kind::Expire | Kind::NoRoute | Kind::DontFragment, _) => false,
            (_, Event::Answer(_)) => true,
            _ => false,
        };
        self.answered += u32::from(right && !self.is_done());
    }

    fn send(&self, id: u16, host: &mut Host, length: usize) {
        const LONG: usize = 1900;
        let ping = || {
            let sequence = self.sent as u16;
            let [a, b] = id.to_be_bytes();
            let [c, d] = sequence.to_be_bytes();
            icmp(icmp_type::ECHO_REQUEST, 0, [a, b, c, d], &[0x5a; 56])
        };
        let datagram = |host: &Host, text: &[u8]| udp((host.ip, id), (self.to, ECHO_PORT), text);
        let (kind, payload) = match self.kind {
            Kind::Fragment | Kind::DontFragment => (protocol::UDP, datagram(host, &[0xa5; LONG])),
            Kind::Flow => (protocol::UDP, datagram(host, &vec![0xa5; length])),
            Kind::Attack => {
                let text = ATTACKS.get(self.sent as usize).copied().unwrap_or_default();
                (protocol::UDP, datagram(host, text))
            }
            _ => (protocol::ICMP, ping()),
        };
        let mut packet = Datagram::new(host.ip, self.to, kind, payload);
        packet.id = id;
        packet.dont_fragment = self.kind == Kind::DontFragment;
        match self.kind {
            Kind::Expire => packet.ttl = 1,
            // Record route: room for three addresses, then the end of the list.
            Kind::RecordRoute => {
                packet.options = vec![7, 15, 4];
                packet.options.extend([0; 13]);
            }
            _ => {}
        }
        match self.by {
            Some(neighbour) => host.send_to(neighbour, &packet),
            None => host.send(&packet),
        }
    }
}
