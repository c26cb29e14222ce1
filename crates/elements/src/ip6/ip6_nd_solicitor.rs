//! IP6NDSolicitor - resolves IPv6 next hops to Ethernet addresses by neighbour discovery
//!
//! # Synopsis
//! `IP6NDSolicitor(IP, ETH)`
//!
//! # Description
//! Input 0 receives IPv6 packets whose IPv6 destination annotation is the next hop. If the next hop's Ethernet address
//! is known, the packet gets an Ethernet header with that address and goes to output 0. Otherwise the element holds the
//! packet, one per next hop, and sends a neighbour solicitation to the next hop's solicited-node group (RFC 4861, 4.3),
//! through output 1 if there is one, else through output 0. A packet that arrives while another one waits for the same
//! next hop replaces it, and triggers another solicitation.
//!
//! Input 1 receives neighbour advertisements with their Ethernet headers. If the element has asked for the address, it
//! records the Ethernet address and sends the packet that waits for it. A recorded address is forgotten after two
//! minutes; after one minute, the next packet triggers another solicitation. A timer checks both every 15 seconds.
//!
//! # Arguments
//! - IP: this host's IPv6 address. Positional, mandatory.
//! - ETH: this host's Ethernet address. Positional, mandatory.
//!
//! # Ports
//! Two push inputs: IPv6 packets, advertisements. One or two push outputs: frames, solicitations.
//!
//! # Handlers
//! - `table` (read): the entries, one per line: address, 1 if it is known and 0 otherwise, Ethernet address.
//! - `stats` (read): packets replaced while they waited, and solicitations sent, as text.
//!
//! # Drops
//! - unresolved address: another packet for the address arrived while this one waited.
//! - table full: the address is new, and the table already has 65536 addresses.
//! - truncated, unexpected: at input 1, the packet is too short for an advertisement; or it is not an advertisement, or
//!   the address was not asked for.
//! - no buffer: there was no memory for a solicitation.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IP6Encap(59, 2001:db8::1, 2001:db8::2)
//!     -> nd :: IP6NDSolicitor(2001:db8::1, 1:1:1:1:1:1)
//!     -> Discard;
//! Idle -> [1] nd;
//! ```
//!
//! # See also
//! IP6NDAdvertiser, GetIP6Address, LookupIP6Route, ARPQuerier

use std::net::Ipv6Addr;
use std::sync::MutexGuard;

use millrace_core::headers::{EthernetHeader, ether_type, icmpv6_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Reason, Refused, Setup,
    Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

use super::neighbor::{Ends, NeighborMessage, SOURCE_LINK_ADDRESS};

/// The element; its manual is at the top of the file.
pub struct Ip6NdSolicitor {
    ip: Ipv6Addr,
    ether: EtherAddress,
    timer: Timer,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// Click's lists: indexed by some bits of the address, the newest entry first.
    buckets: Vec<Vec<Entry>>,
    entries: usize,
    /// When the element was initialised.
    start: Timestamp,
    killed: u64,
    queries: u64,
}

struct Entry {
    ip: Ipv6Addr,
    /// The Ethernet address, once it is known, and when it was received.
    known: Option<(EtherAddress, Timestamp)>,
    /// Whether the next packet triggers another solicitation.
    polling: bool,
    waiting: Option<Packet>,
}

/// What happens to a packet.
enum Fate {
    Send(Packet, EtherAddress),
    Waits,
    Dropped(Packet, Reason),
}

register!(Ip6NdSolicitor, "ip6_nd_solicitor.rs");

const BUCKETS: usize = 256;
const MOST_ENTRIES: usize = 65_536;
/// Seconds between two checks of the ages of entries.
const PERIOD: i64 = 15;
/// The ages, in milliseconds, after which an entry is asked for again, and after which it is forgotten.
const POLL_AFTER: i64 = 60_000;
const FORGET_AFTER: i64 = 120_000;

impl Element for Ip6NdSolicitor {
    const CLASS: Class = Class::new("IP6NDSolicitor", "2/1-2", "h/h").flow("xy/x");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let ip = setup.args.mandatory("IP");
        let ether = setup.args.mandatory("ETH");
        setup.args.complete()?;
        Ok(Self { ip, ether, timer, state: Lock::default() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.state().start = init.clock().now();
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match port {
                0 => self.take_ip(cx, packet),
                _ => self.take_advertisement(cx, packet),
            }
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let now = cx.now();
        let mut state = self.state();
        let mut left = 0;
        for bucket in &mut state.buckets {
            bucket.retain_mut(|entry| {
                let age = entry.known.map(|(_, said)| now.as_millis() - said.as_millis());
                entry.polling |= age.is_some_and(|age| age > POLL_AFTER);
                age.is_none_or(|age| age <= FORGET_AFTER)
            });
            left += bucket.len();
        }
        state.entries = left;
        self.see_to_ages(&state, now);
    }

    fn held(&self) -> usize {
        let waits = |entry: &&Entry| entry.waiting.is_some();
        self.state().buckets.iter().flatten().filter(waits).count()
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if (self.ip, self.ether) == (old.ip, old.ether) {
            let taken = std::mem::take(&mut *old.state());
            let mut state = self.state();
            state.buckets = taken.buckets;
            state.entries = taken.entries;
            self.see_to_ages(&state, init.clock().now());
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |element, _| {
            let line = |entry: &Entry| {
                let ether = entry.known.map(|(ether, _)| ether).unwrap_or_default();
                format!("{} {} {ether}\n", entry.ip, u8::from(entry.known.is_some()))
            };
            element.state().buckets.iter().flatten().map(line).collect::<String>()
        });
        handlers.read("stats", |element, _| {
            let state = element.state();
            let State { killed, queries, .. } = *state;
            format!("{killed} packets killed\n{queries} ND Solicitation Message sent\n")
        });
    }
}

impl Ip6NdSolicitor {
    fn take_ip(&self, cx: &mut Context, packet: Packet) {
        let ip = packet.dst_ip6();
        let now = cx.now();
        let mut state = self.state();
        let (fate, replaced, asks) = state.take(ip, packet);
        self.see_to_ages(&state, now);
        state.killed += u64::from(replaced.is_some());
        state.queries += u64::from(asks);
        drop(state);
        if let Some(packet) = replaced {
            cx.drop(packet, Reason::Unresolved);
        }
        if asks {
            self.query(cx, ip);
        }
        match fate {
            Fate::Send(packet, ether) => self.send(cx, packet, ether),
            Fate::Waits => {}
            Fate::Dropped(packet, reason) => drop(cx.drop(packet, reason)),
        }
    }

    fn take_advertisement(&self, cx: &mut Context, packet: Packet) {
        let Some((frame, _, &message, _)) = NeighborMessage::split(packet.data()) else {
            cx.drop(packet, Reason::Truncated);
            return;
        };
        let is_advertisement = frame.ether_type.get() == ether_type::IPV6
            && message.kind == icmpv6_type::NEIGHBOR_ADVERTISEMENT;
        let ip = Ipv6Addr::from(message.target);
        let mut state = self.state();
        let Some(entry) = state.find(ip).filter(|_| is_advertisement) else {
            cx.drop(packet, Reason::Unexpected);
            return;
        };
        let before = entry.known.replace((message.ether, cx.now()));
        entry.polling = false;
        let waited = entry.waiting.take();
        drop(state);
        if before.is_some_and(|(ether, _)| ether != message.ether) {
            cx.router().chatter("IP6NDSolicitor overwriting an entry");
        }
        drop(packet);
        cx.consumed(1);
        if let Some(packet) = waited {
            self.send(cx, packet, message.ether);
        }
    }

    fn send(&self, cx: &mut Context, mut packet: Packet, to: EtherAddress) {
        let header =
            EthernetHeader { dst: to, src: self.ether, ether_type: ether_type::IPV6.into() };
        packet.push_front(header.as_bytes());
        packet.set_mac_header(0);
        cx.push(0, packet);
    }

    /// Sends a solicitation for an address.
    fn query(&self, cx: &mut Context, ip: Ipv6Addr) {
        let [.., a, b, c] = ip.octets();
        // The solicited-node group (RFC 4291, 2.7.1) and its Ethernet address (RFC 2464, 7).
        let low = u16::from_be_bytes([b, c]);
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low);
        let group_ether = EtherAddress([0x33, 0x33, 0xff, a, b, c]);
        let option = (SOURCE_LINK_ADDRESS, self.ether);
        let message = NeighborMessage::new(icmpv6_type::NEIGHBOR_SOLICITATION, 0, ip, option);
        let ends = Ends { source: (self.ip, self.ether), destination: (group, group_ether) };
        cx.created(1);
        let Some(mut query) = message.in_frame(&ends) else {
            return cx.dropped(1, Reason::NoBuffer);
        };
        query.set_timestamp(cx.now());
        cx.push(usize::from(cx.outputs() > 1), query);
    }

    /// Schedules the timer that checks the ages of entries, if there are any.
    fn see_to_ages(&self, state: &State, now: Timestamp) {
        if state.entries == 0 || self.timer.expiry().is_some() {
            return;
        }
        let period = PERIOD * 1000;
        let start = state.start.as_millis();
        let past = (now.as_millis() - start).div_euclid(period);
        self.timer.schedule_at(Timestamp::from_millis(start + (past + 1) * period));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// What happens to a packet for this address, the packet that it replaces, and whether to send a
    /// solicitation.
    fn take(&mut self, ip: Ipv6Addr, packet: Packet) -> (Fate, Option<Packet>, bool) {
        if let Some(entry) = self.find(ip) {
            let polls = std::mem::take(&mut entry.polling);
            return match entry.known {
                Some((ether, _)) => (Fate::Send(packet, ether), None, polls),
                None => (Fate::Waits, entry.waiting.replace(packet), true),
            };
        }
        if self.entries >= MOST_ENTRIES {
            return (Fate::Dropped(packet, Reason::TableFull), None, false);
        }
        if self.buckets.is_empty() {
            self.buckets.resize_with(BUCKETS, Vec::new);
        }
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ip)) {
            bucket.insert(0, Entry { ip, known: None, polling: false, waiting: Some(packet) });
            self.entries += 1;
        }
        (Fate::Waits, None, true)
    }

    fn find(&mut self, ip: Ipv6Addr) -> Option<&mut Entry> {
        self.buckets.get_mut(bucket_of(ip))?.iter_mut().find(|entry| entry.ip == ip)
    }
}

fn bucket_of(ip: Ipv6Addr) -> usize {
    let [first, .., last] = ip.octets();
    (usize::from(first) + usize::from(last)) % BUCKETS
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};

    const CONFIG: &str = "IP6NDSolicitor(2001:db8::1, 1:1:1:1:1:1)";

    fn to(ip: &str, data: &str) -> Packet {
        let mut packet = Packet::from_bytes(data.as_bytes()).unwrap();
        packet.set_dst_ip6(ip.parse().unwrap());
        packet
    }

    fn advertisement(ip: &str, ether: u8) -> Packet {
        let ip: Ipv6Addr = ip.parse().unwrap();
        let body = [&ip.octets()[..], &[2, 1], &[ether; 6]].concat();
        let builder = etherparse::PacketBuilder::ethernet2([ether; 6], [1; 6])
            .ipv6(ip.octets(), [1; 16], 255)
            .icmpv6_raw(136, 0, [0xc0, 0, 0, 0]);
        let mut frame = Vec::new();
        builder.write(&mut frame, &body).unwrap();
        Packet::from_bytes(&frame).unwrap()
    }

    #[test]
    fn waiting_packets_are_sent_after_the_advertisement() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        let out =
            rig.push_packets(0, vec![to("2001:db8::a1:b2c3", "a"), to("2001:db8::a1:b2c3", "b")]);
        assert_eq!((out[0].len(), out[1].len()), (0, 2));
        let query = out[1][0].data();
        let ethers = b"\x33\x33\xff\xa1\xb2\xc3\x01\x01\x01\x01\x01\x01\x86\xdd";
        assert_eq!(query[..14], *ethers);
        let (ip, payload) = etherparse::Ipv6Header::from_slice(&query[14..]).unwrap();
        assert_eq!(Ipv6Addr::from(ip.destination).to_string(), "ff02::1:ffa1:b2c3");
        assert_eq!(
            (ip.hop_limit, Ipv6Addr::from(ip.source).to_string()),
            (255, "2001:db8::1".into())
        );
        let icmp = etherparse::Icmpv6Slice::from_slice(payload).unwrap();
        assert!(icmp.is_checksum_valid(ip.source, ip.destination));
        assert_eq!((payload[0], &payload[24..]), (135, &[1, 1, 1, 1, 1, 1, 1, 1][..]));
        assert_eq!(rig.read("table").unwrap(), "2001:db8::a1:b2c3 0 00-00-00-00-00-00\n");
        assert_eq!(
            rig.read("stats").unwrap(),
            "1 packets killed\n2 ND Solicitation Message sent\n"
        );

        let out = rig.push_packets(1, vec![advertisement("2001:db8::a1:b2c3", 8)]);
        let header = b"\x08\x08\x08\x08\x08\x08\x01\x01\x01\x01\x01\x01\x86\xdd";
        assert_eq!(out[0][0].data(), [&header[..], b"b"].concat());
        assert_eq!(rig.stats().drops, [(Reason::Unresolved, 1)]);
        let out = rig.push_packets(0, vec![to("2001:db8::a1:b2c3", "c")]);
        assert_eq!((out[0].len(), out[1].len()), (1, 0));
    }

    #[test]
    fn entries_expire() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        rig.push_packets(0, vec![to("2001:db8::2", "a")]);
        rig.push_packets(1, vec![advertisement("2001:db8::2", 8)]);
        rig.pass(Timestamp::from_secs(80));
        let out = rig.push_packets(0, vec![to("2001:db8::2", "b"), to("2001:db8::2", "c")]);
        assert_eq!((out[0].len(), out[1].len()), (2, 1));
        rig.pass(Timestamp::from_secs(60));
        assert_eq!(rig.read("table").unwrap(), "");
    }

    #[test]
    fn other_messages_are_dropped() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let short = Packet::from_bytes(&advertisement("2001:db8::2", 8).data()[..85]).unwrap();
        rig.push_packets(1, vec![advertisement("2001:db8::2", 8), short]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1), (Reason::Unexpected, 1)]);
    }
}
