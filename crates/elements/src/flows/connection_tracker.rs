//! ConnectionTracker - tells which packets belong to connections, for stateful firewalls
//!
//! # Synopsis
//! `ConnectionTracker([keywords CAPACITY, OPENING_TIMEOUT, TCP_TIMEOUT, TCP_DONE_TIMEOUT, TIMEOUT, LOOSE])`
//!
//! # Description
//! Finds the connection that each IPv4 or IPv6 packet belongs to, and writes its state into the CONNECTION annotation.
//! IPFilter and IPClassifier downstream have words for it:
//!
//! - `new`: the packet begins a connection, or no reply to its connection has been seen yet.
//! - `established`: there have been packets in both directions.
//! - `related`: an ICMP error about a packet of a connection, sent to the sender of that packet.
//! - `invalid`: a packet that should belong to a connection, and none is known: a TCP segment without SYN (see LOOSE),
//!   a reply without a query, an error about an unknown packet. Also, a reply when there is no room for another open
//!   connection.
//! - `untracked`: all others: truncated packets, packets without an IP header, fragments that come before the first one of
//!   their datagram, and ICMPv6 messages of neighbour discovery and multicast listeners.
//!
//! The fragments of a datagram have the state of the first one, which alone has the ports; so rules about ports do not
//! match the others. Fragments that overlap are `invalid`, and so are all that follow of that datagram. Up to 4096
//! datagrams of which fragments are missing are remembered, for 30 seconds. To let IPv4 fragments pass in any order, put
//! IPReassembler before and IPFragmenter after.
//!
//! Packets of both directions must pass the same ConnectionTracker. A connection has addresses, protocol, and ports, or
//! the identifier of an ICMP query. The packet that begins it is remembered although a filter downstream may drop it;
//! until a reply comes, only for OPENING_TIMEOUT, and in a table of its own, so that floods of such packets do not displace
//! connections. When that is full, any connection without a reply makes room for a new one.
//!
//! TCP connections end with a FIN in both directions or an RST, others by silence. Sequence numbers, checksums and the
//! data that protocols such as FTP exchange about further connections are not checked.
//!
//! # Arguments
//! - CAPACITY: maximum number of connections of each kind: without a reply, open by TCP, closing, and of other
//!   protocols. Keyword, default 262144.
//! - OPENING_TIMEOUT: seconds of silence after which a connection without a reply is forgotten. Keyword, default 60.
//! - TCP_TIMEOUT: the same for open TCP connections. Keyword, default 7440, the minimum of RFC 5382.
//! - TCP_DONE_TIMEOUT: the same for TCP connections that both sides have closed, or one has reset. Keyword, default 30.
//! - TIMEOUT: the same for other protocols. Keyword, default 180.
//! - LOOSE: whether a TCP segment without SYN may begin a connection, so that those from before the start of the router
//!   go on. Keyword, default true, as in Linux.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `count` (read): connections of all kinds.
//! - `opening`, `open`, `closing`, `exchanges` (read): connections without a reply, open by TCP, of TCP that have ended, and
//!   of other protocols with packets in both directions.
//! - `full` (read): how often there was no room for a connection.
//! - `reset` (write): forgets all connections.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! // From inside to outside everything; back only what belongs to it.
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> ConnectionTracker
//!     -> IPFilter(allow established or related, allow new and src net 10.0.0.0/8, deny all)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPFilter, IPClassifier, IPRewriter, FlowIPManager, IPReassembler

use std::sync::Arc;

use millrace_core::args::{Kind, Seconds};
use millrace_core::{
    Args, Class, Element, Failed, Footprint, Handlers, Init, Moment, Offers, PerPacket, Setup,
    View, Way, register,
};

use super::connections::{Connections, Counts, Timeouts};
use super::table::millis;
use crate::capability::ConnectionStates;

/// The element; its manual is at the top of the file.
pub struct ConnectionTracker {
    connections: Connections,
}

register!(ConnectionTracker, "connection_tracker.rs");

impl Element for ConnectionTracker {
    const CLASS: Class = Class::new("ConnectionTracker", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let capacity: Option<u32> = args.in_range("CAPACITY", Kind::Keyword, 1..=1 << 30);
        let timeouts = Timeouts {
            opening: timeout(args, "OPENING_TIMEOUT", 60),
            open: timeout(args, "TCP_TIMEOUT", 7440),
            closing: timeout(args, "TCP_DONE_TIMEOUT", 30),
            exchanges: timeout(args, "TIMEOUT", 180),
        };
        let loose = args.keyword("LOOSE", true);
        args.complete()?;
        let capacity = capacity.unwrap_or(1 << 18) as usize;
        Ok(Self { connections: Connections::new(capacity, timeouts, loose) })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.connections.take(&old.connections);
    }

    fn footprint(&self) -> Footprint {
        self.connections.footprint()
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn ConnectionStates>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        let mut count = |name, of: fn(Counts) -> usize| {
            handlers.read(name, move |tracker, call| {
                of(tracker.connections.counts(millis(call.now())))
            });
        };
        count("count", |counts| counts.opening + counts.open + counts.closing + counts.exchanges);
        count("opening", |counts| counts.opening);
        count("open", |counts| counts.open);
        count("closing", |counts| counts.closing);
        count("exchanges", |counts| counts.exchanges);
        handlers.read("full", |tracker, _| tracker.connections.full());
        handlers.write("reset", |tracker, _| {
            tracker.connections.clear();
            Ok(())
        });
    }
}

impl PerPacket for ConnectionTracker {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let now = millis(at.now());
        let state = packet.network_data().map(|bytes| self.connections.see(at, bytes, now));
        packet.set_connection(state.unwrap_or_default() as u8);
        Way::ON
    }
}

impl ConnectionStates for ConnectionTracker {}

/// A timeout in milliseconds; 0 seconds would mean never to the table, but means at once here.
fn timeout(args: &mut Args<'_>, name: &str, default: u64) -> u64 {
    let time: Option<Seconds> = args.optional_keyword(name);
    let seconds = time.map_or(default, |time| time.as_secs());
    seconds.saturating_mul(1000).clamp(1, 1 << 50)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    use crate::classify::program::State;
    use crate::test_packets::ip::{Datagram, withstands};
    use crate::test_packets::ip6;

    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const FIN: u8 = 1;
    const RST: u8 = 4;
    const A: u8 = 1;
    const B: u8 = 2;

    /// A TCP segment between two hosts, with ports of their numbers; IPv6 if `six`.
    fn tcp(six: bool, from: u8, to: u8, flags: u8) -> Packet {
        let mut header = vec![0, from, 0, to, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags];
        header.resize(20, 0);
        ip(six, from, to, 6, header)
    }

    fn udp(six: bool, from: u8, to: u8) -> Packet {
        ip(six, from, to, 17, vec![0, from, 0, to, 0, 8, 0, 0])
    }

    fn ping(six: bool, from: u8, to: u8, is_reply: bool) -> Packet {
        let (protocol, kind) = match (six, is_reply) {
            (false, false) => (1, 8),
            (false, true) => (1, 0),
            (true, false) => (58, 128),
            (true, true) => (58, 129),
        };
        ip(six, from, to, protocol, vec![kind, 0, 0, 0, 0, 77, 0, 1])
    }

    /// A message that the destination of a packet cannot be reached, from host `from`.
    fn unreachable(six: bool, from: u8, to: u8, about: &Packet) -> Packet {
        let (protocol, kind) = if six { (58, 1) } else { (1, 3) };
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0], about.data()].concat();
        ip(six, from, to, protocol, message)
    }

    fn ip(six: bool, from: u8, to: u8, protocol: u8, payload: Vec<u8>) -> Packet {
        if six {
            let address = |host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host));
            let (source, destination) = (address(from), address(to));
            let default = ip6::Datagram::default();
            let next_header = protocol;
            ip6::Datagram { source, destination, next_header, payload, ..default }.packet()
        } else {
            let address = |host| Ipv4Addr::new(10, 0, 0, host);
            let (source, destination) = (address(from), address(to));
            Datagram { source, destination, payload, ..Datagram::of(protocol) }.packet()
        }
    }

    /// The state that the tracker finds for a packet.
    fn state(rig: &mut Rig, packet: Packet) -> State {
        let out = rig.push_packets(0, vec![packet]);
        State::of(out[0][0].connection())
    }

    fn tracker(arguments: &str) -> Rig {
        Rig::new(&format!("ConnectionTracker({arguments})"), 1, 1).unwrap()
    }

    fn read(rig: &Rig, handler: &str) -> u32 {
        rig.read(handler).unwrap().parse().unwrap()
    }

    #[test]
    fn a_tcp_connection_opens_and_closes() {
        use State::{Established, Invalid, New};
        for six in [false, true] {
            let mut rig = tracker("LOOSE false");
            for (from, to, flags, expected) in [
                (B, A, ACK, Invalid),
                (A, B, SYN, New),
                (A, B, SYN, New),
                (B, A, ACK, Invalid),
                (B, A, SYN | ACK, Established),
                (A, B, ACK, Established),
                (B, A, FIN | ACK, Established),
                (A, B, ACK, Established),
                (A, B, FIN | ACK, Established),
                (B, A, ACK, Established),
                (B, A, SYN, New),
                (A, B, RST | ACK, Established),
                (A, B, ACK, Invalid),
            ] {
                let found = state(&mut rig, tcp(six, from, to, flags));
                assert_eq!(found, expected, "{from} to {to}, flags {flags}, IPv6 {six}");
            }
            assert_eq!(read(&rig, "count"), 0);
        }
    }

    #[test]
    fn a_segment_in_midstream_begins_a_connection_only_if_loose() {
        let mut loose = tracker("");
        assert_eq!(state(&mut loose, tcp(false, A, B, ACK)), State::New);
        assert_eq!(state(&mut loose, tcp(false, B, A, ACK)), State::Established);
        assert_eq!(state(&mut loose, tcp(false, A, 9, RST)), State::Invalid);
        assert_eq!(state(&mut tracker("LOOSE false"), tcp(false, A, B, ACK)), State::Invalid);
    }

    #[test]
    fn datagrams_and_pings_are_established_by_replies() {
        for six in [false, true] {
            let mut rig = tracker("");
            for (packet, expected) in [
                (udp(six, A, B), State::New),
                (udp(six, A, B), State::New),
                (udp(six, B, A), State::Established),
                (udp(six, A, B), State::Established),
                (ping(six, B, A, true), State::Invalid),
                (ping(six, A, B, false), State::New),
                (ping(six, B, A, true), State::Established),
            ] {
                assert_eq!(state(&mut rig, packet), expected, "IPv6 {six}");
            }
            assert_eq!((read(&rig, "exchanges"), read(&rig, "opening")), (2, 0));
            rig.write("reset", "").unwrap();
            assert_eq!(state(&mut rig, udp(six, B, A)), State::New);
        }
    }

    #[test]
    fn errors_are_related_to_the_connection_that_they_quote() {
        for six in [false, true] {
            let mut rig = tracker("");
            let packet = || udp(six, A, B);
            assert_eq!(state(&mut rig, unreachable(six, B, A, &packet())), State::Invalid);
            assert_eq!(state(&mut rig, packet()), State::New);
            // Any router on the way may send it, but to nobody else than the sender.
            assert_eq!(state(&mut rig, unreachable(six, 7, A, &packet())), State::Related);
            assert_eq!(state(&mut rig, unreachable(six, 7, 8, &packet())), State::Invalid);
            let about_error = unreachable(six, 7, 7, &unreachable(six, 7, A, &packet()));
            assert_eq!(state(&mut rig, about_error), State::Invalid);
        }
    }

    #[test]
    fn only_the_right_side_counts() {
        for six in [false, true] {
            // An error about a packet that nobody inside has sent.
            let mut rig = tracker("");
            assert_eq!(state(&mut rig, udp(six, B, A)), State::New);
            let about = udp(six, A, B);
            assert_eq!(state(&mut rig, unreachable(six, B, A, &about)), State::Invalid);
            // A ping of the other side with the same identifier is no answer.
            assert_eq!(state(&mut rig, ping(six, A, B, false)), State::New);
            assert_eq!(state(&mut rig, ping(six, B, A, false)), State::New);
            assert_eq!(state(&mut rig, ping(six, B, A, true)), State::Established);
        }
    }

    #[test]
    fn a_connection_that_one_side_closed_goes_on() {
        let mut rig = tracker("TCP_DONE_TIMEOUT 1");
        for (from, to, flags) in
            [(A, B, SYN), (B, A, SYN | ACK), (A, B, FIN | ACK), (A, B, FIN | ACK)]
        {
            state(&mut rig, tcp(false, from, to, flags));
        }
        rig.pass(Timestamp::from_secs(100));
        assert_eq!(state(&mut rig, tcp(false, B, A, ACK)), State::Established);
        assert_eq!((read(&rig, "open"), read(&rig, "closing")), (1, 0));
        assert_eq!(state(&mut rig, tcp(false, B, A, FIN | ACK)), State::Established);
        assert_eq!((read(&rig, "open"), read(&rig, "closing")), (0, 1));
    }

    #[test]
    fn silence_ends_connections_and_each_kind_has_its_time() {
        let mut rig = tracker("OPENING_TIMEOUT 2, TIMEOUT 5, TCP_TIMEOUT 8, TCP_DONE_TIMEOUT 1");
        for packet in [udp(false, A, B), udp(false, 3, 4), udp(false, 4, 3)] {
            state(&mut rig, packet);
        }
        for flags in [SYN, SYN | ACK] {
            let (from, to) = if flags == SYN { (5, 6) } else { (6, 5) };
            state(&mut rig, tcp(false, from, to, flags));
        }
        let counts = |rig: &Rig| ["opening", "exchanges", "open"].map(|name| read(rig, name));
        assert_eq!(counts(&rig), [1, 1, 1]);
        let mut after = |seconds: i64| {
            rig.pass(Timestamp::from_secs(seconds));
            counts(&rig)
        };
        assert_eq!(after(3), [0, 1, 1]);
        assert_eq!(after(3), [0, 0, 1]);
        assert_eq!(after(3), [0, 0, 0]);
    }

    /// A fragment of a UDP datagram of 24 bytes.
    fn fragment(six: bool, from: u8, to: u8, start: u16, end: u16, more: bool) -> Packet {
        let datagram = [vec![0, from, 0, to, 0, 24, 0, 0], vec![b'x'; 16]].concat();
        let part = datagram[usize::from(start)..usize::from(end)].to_vec();
        if six {
            let [high, low] = (start | u16::from(more)).to_be_bytes();
            let header = vec![17, 0, high, low, 0, 0, 0, 9];
            return ip(six, from, to, 44, [header, part].concat());
        }
        let address = |host| Ipv4Addr::new(10, 0, 0, host);
        let (source, destination) = (address(from), address(to));
        Datagram {
            source,
            destination,
            payload: part,
            more_fragments: more,
            fragment_offset: start / 8,
            ..Datagram::of(17)
        }
        .packet()
    }

    #[test]
    fn fragments_belong_to_the_connection_of_the_first_one() {
        for six in [false, true] {
            let mut rig = tracker("");
            let mut see = |packet| state(&mut rig, packet);
            assert_eq!(see(fragment(six, B, A, 8, 24, false)), State::Untracked);
            assert_eq!(see(udp(six, A, B)), State::New);
            assert_eq!(see(fragment(six, B, A, 0, 8, true)), State::Established, "IPv6 {six}");
            assert_eq!(see(fragment(six, B, A, 8, 16, true)), State::Established);
            assert_eq!(see(fragment(six, B, A, 16, 24, false)), State::Established);
            // Of the next datagram one fragment overlaps the ports.
            assert_eq!(see(fragment(six, B, A, 0, 16, true)), State::Established);
            assert_eq!(see(fragment(six, B, A, 8, 24, false)), State::Invalid);
            assert_eq!(see(fragment(six, B, A, 16, 24, false)), State::Invalid);
        }
    }

    #[test]
    fn what_has_no_connection_is_untracked() {
        let mut rig = tracker("");
        let fragment = Datagram { fragment_offset: 10, ..Datagram::default() };
        let solicitation = ip(true, A, B, 58, vec![135; 24]);
        let cut = ip(false, A, B, 17, vec![0, 1]);
        for packet in [fragment.packet(), solicitation, cut] {
            assert_eq!(state(&mut rig, packet), State::Untracked);
        }
        let mut unmarked = Packet::from_bytes(&[0; 60]).unwrap();
        unmarked.set_connection(2);
        assert_eq!(state(&mut rig, unmarked), State::Untracked);
    }

    #[test]
    fn a_flood_does_not_displace_connections() {
        let mut rig = tracker("CAPACITY 4");
        assert_eq!(state(&mut rig, udp(false, A, B)), State::New);
        assert_eq!(state(&mut rig, udp(false, B, A)), State::Established);
        let states: Vec<_> =
            (10..16).map(|host| state(&mut rig, tcp(false, host, B, SYN))).collect();
        assert_eq!(states, [State::New; 6]);
        assert_eq!((read(&rig, "full"), read(&rig, "opening")), (2, 4));
        assert_eq!(state(&mut rig, udp(false, A, B)), State::Established);
    }

    #[test]
    fn no_packet_causes_a_panic() {
        withstands("ConnectionTracker(CAPACITY 3)", 1);
        ip6::withstands("ConnectionTracker(CAPACITY 3)", 1);
    }
}
