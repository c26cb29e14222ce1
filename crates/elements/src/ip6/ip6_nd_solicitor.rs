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
//! next hop replaces it, and triggers another solicitation. At most 2048 packets wait.
//!
//! Input 1 receives neighbour advertisements with their Ethernet headers. If the element has asked for the address, it
//! records the Ethernet address and sends the packet that waits for it. As RFC 4861, 7.2.5 requires, another Ethernet
//! address than the recorded one counts only if the advertisement says so (its flag "override"), and an advertisement
//! that nobody asked for does not prolong the time for which an address is known.
//!
//! A recorded address is forgotten two minutes after it was last confirmed; after one minute, the next packet triggers
//! another solicitation. An address that does not answer is forgotten 15 seconds after the last solicitation, and the
//! packet that waits for it is dropped. A timer checks all of them every 15 seconds.
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
//! - `stats` (read): packets dropped while they waited, and solicitations sent, as text.
//!
//! # Drops
//! - unresolved address: another packet for the address arrived while this one waited, or there was no answer.
//! - table full: the address is new, and the table already has 65536 addresses; or 2048 packets already wait.
//! - truncated, bad length, bad checksum, bad option: at input 1, the packet is too short for an advertisement, its
//!   ICMPv6 checksum is wrong, or the length of an option is.
//! - unexpected: at input 1, the packet is not an advertisement, was routed (its hop limit is not 255), or is for an
//!   address that was not asked for; it has no Ethernet address, or another one than is known without the flag
//!   "override".
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

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::MutexGuard;

use foldhash::fast::RandomState;
use millrace_core::headers::{EthernetHeader, ether_type, icmpv6_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Packet, Reason,
    Refused, Setup, Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

use super::neighbor::{
    Ends, NeighborMessage, OVERRIDE, Received, SOLICITED, SOURCE_LINK_ADDRESS, TARGET_LINK_ADDRESS,
};

/// The element; its manual is at the top of the file.
pub struct Ip6NdSolicitor {
    ip: Ipv6Addr,
    ether: EtherAddress,
    timer: Timer,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Ipv6Addr, Entry, RandomState>,
    /// Entries so far.
    created: u64,
    /// Packets that wait.
    waiting: usize,
    /// When the element was initialised.
    start: Timestamp,
    killed: u64,
    queries: u64,
}

struct Entry {
    /// The number of entries before it.
    number: u64,
    /// The Ethernet address, once it is known, and when it was last confirmed.
    known: Option<(EtherAddress, Timestamp)>,
    /// When the last solicitation was sent.
    asked: Timestamp,
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

const MOST_ENTRIES: usize = 65_536;
const MOST_WAITING: usize = 2048;
/// Seconds between two checks of the ages of entries.
const PERIOD: i64 = 15;
/// The ages, in milliseconds, after which an entry is asked for again, and after which it is forgotten.
const POLL_AFTER: i64 = 60_000;
const FORGET_AFTER: i64 = 120_000;
/// Milliseconds after the last solicitation at which an address without an answer is forgotten.
const GIVE_UP_AFTER: i64 = 15_000;

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
        let mut state = self.state();
        let given_up = state.age(cx.now());
        self.see_to_ages(&state, cx.now());
        drop(state);
        for packet in given_up {
            cx.drop(packet, Reason::Unresolved);
        }
    }

    fn held(&self) -> usize {
        self.state().waiting
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if (self.ip, self.ether) == (old.ip, old.ether) {
            let taken = std::mem::take(&mut *old.state());
            let mut state = self.state();
            *state = State { start: state.start, killed: 0, queries: 0, ..taken };
            self.see_to_ages(&state, init.clock().now());
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::hash_table(MOST_ENTRIES, size_of::<(Ipv6Addr, Entry)>())
            .and(Footprint::packets(MOST_WAITING))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |element, _| element.state().table());
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
        let (fate, replaced, asks) = state.take(ip, packet, now);
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
        let said = Received::read(packet.data(), icmpv6_type::NEIGHBOR_ADVERTISEMENT)
            .and_then(|said| self.state().learn(&said, cx.now()));
        let learnt = match said {
            Ok(learnt) => learnt,
            Err(reason) => return drop(cx.drop(packet, reason)),
        };
        if learnt.replaces_another {
            cx.router().chatter("IP6NDSolicitor overwriting an entry");
        }
        drop(packet);
        cx.consumed(1);
        if let Some(waited) = learnt.waited {
            self.send(cx, waited, learnt.ether);
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
        if state.entries.is_empty() || self.timer.expiry().is_some() {
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

/// What an advertisement told.
struct Learnt {
    ether: EtherAddress,
    replaces_another: bool,
    /// The packet that waited for it.
    waited: Option<Packet>,
}

impl State {
    /// What happens to a packet for this address, the packet that it replaces, and whether to send a
    /// solicitation.
    fn take(
        &mut self,
        ip: Ipv6Addr,
        packet: Packet,
        now: Timestamp,
    ) -> (Fate, Option<Packet>, bool) {
        if !self.entries.contains_key(&ip) && self.entries.len() >= MOST_ENTRIES {
            return (Fate::Dropped(packet, Reason::TableFull), None, false);
        }
        let number = self.created;
        let entry = self.entries.entry(ip).or_insert_with(|| {
            self.created += 1;
            Entry { number, known: None, asked: now, polling: false, waiting: None }
        });
        let asks = std::mem::take(&mut entry.polling) || entry.known.is_none();
        if asks {
            entry.asked = now;
        }
        if let Some((ether, _)) = entry.known {
            return (Fate::Send(packet, ether), None, asks);
        }
        if entry.waiting.is_none() && self.waiting >= MOST_WAITING {
            return (Fate::Dropped(packet, Reason::TableFull), None, asks);
        }
        let replaced = entry.waiting.replace(packet);
        self.waiting += usize::from(replaced.is_none());
        (Fate::Waits, replaced, asks)
    }

    /// Records what an advertisement says.
    ///
    /// # Errors
    /// The reason why it says nothing.
    fn learn(&mut self, said: &Received<'_>, now: Timestamp) -> Result<Learnt, Reason> {
        let entry = self.entries.get_mut(&said.target).ok_or(Reason::Unexpected)?;
        let before = entry.known;
        let solicited = said.flags & SOLICITED != 0;
        // Who was asked by name may leave the address out.
        let named = said.ether(TARGET_LINK_ADDRESS).or_else(|| before.map(|(ether, _)| ether));
        let ether = named.ok_or(Reason::Unexpected)?;
        let differs = before.is_some_and(|(known, _)| known != ether);
        if differs && said.flags & OVERRIDE == 0 {
            // Perhaps the known one is wrong.
            entry.polling = true;
            return Err(Reason::Unexpected);
        }
        let confirmed = before.filter(|_| !solicited).map_or(now, |(_, time)| time);
        entry.known = Some((ether, confirmed));
        entry.polling =
            if solicited { false } else { entry.polling || differs || before.is_none() };
        let waited = entry.waiting.take();
        self.waiting -= usize::from(waited.is_some());
        Ok(Learnt { ether, replaces_another: differs, waited })
    }

    /// Checks the ages of all entries; returns the packets that waited in vain.
    fn age(&mut self, now: Timestamp) -> Vec<Packet> {
        let mut given_up = Vec::new();
        let since = |then: Timestamp| now.as_millis() - then.as_millis();
        self.entries.retain(|_, entry| match entry.known {
            Some((_, confirmed)) => {
                entry.polling |= since(confirmed) > POLL_AFTER;
                since(confirmed) <= FORGET_AFTER
            }
            None if since(entry.asked) < GIVE_UP_AFTER => true,
            None => {
                given_up.extend(entry.waiting.take());
                false
            }
        });
        self.waiting -= given_up.len();
        self.killed += given_up.len() as u64;
        given_up
    }

    /// The text of the handler `table`, in the order of Click's lists: by some bits of the address, the newest entry
    /// first.
    fn table(&self) -> String {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(ip, entry)| (bucket_of(**ip), Reverse(entry.number)));
        let line = |(ip, entry): (&Ipv6Addr, &Entry)| {
            let ether = entry.known.map(|(ether, _)| ether).unwrap_or_default();
            format!("{ip} {} {ether}\n", u8::from(entry.known.is_some()))
        };
        entries.into_iter().map(line).collect()
    }
}

fn bucket_of(ip: Ipv6Addr) -> u8 {
    let [first, .., last] = ip.octets();
    first.wrapping_add(last)
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

    const ANSWER: u8 = 0xc0;

    fn advertisement(ip: &str, ether: u8) -> Packet {
        said(ip, ether, ANSWER, 255)
    }

    fn said(ip: &str, ether: u8, flags: u8, hop_limit: u8) -> Packet {
        let ip: Ipv6Addr = ip.parse().unwrap();
        let body = [&ip.octets()[..], &[2, 1], &[ether; 6]].concat();
        let builder = etherparse::PacketBuilder::ethernet2([ether; 6], [1; 6])
            .ipv6(ip.octets(), [1; 16], hop_limit)
            .icmpv6_raw(136, 0, [flags, 0, 0, 0]);
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

    #[test]
    fn routed_and_damaged_advertisements_are_not_believed() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        rig.push_packets(0, vec![to("2001:db8::2", "a")]);
        let mut damaged = advertisement("2001:db8::2", 8);
        *damaged.data_mut().last_mut().unwrap() ^= 1;
        let mut empty_option = advertisement("2001:db8::2", 8);
        // The checksum stays right: what the length loses, the reserved bytes get.
        empty_option.data_mut()[79] = 0;
        empty_option.data_mut()[59] = 1;
        let routed = said("2001:db8::2", 8, ANSWER, 254);
        let out = rig.push_packets(1, vec![damaged, empty_option, routed]);
        assert!(out[0].is_empty());
        let drops = [(Reason::BadChecksum, 1), (Reason::BadOption, 1), (Reason::Unexpected, 1)];
        assert_eq!(rig.stats().drops, drops);
        assert_eq!(rig.push_packets(1, vec![advertisement("2001:db8::2", 8)])[0].len(), 1);
    }

    #[test]
    fn another_address_counts_with_override_only() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        rig.push_packets(0, vec![to("2001:db8::2", "a")]);
        rig.push_packets(1, vec![advertisement("2001:db8::2", 8)]);
        let table = |rig: &Rig| rig.read("table").unwrap();
        rig.push_packets(1, vec![said("2001:db8::2", 9, ANSWER, 255)]);
        assert_eq!(table(&rig), "2001:db8::2 1 08-08-08-08-08-08\n");
        assert_eq!(rig.stats().drops, [(Reason::Unexpected, 1)]);
        // Unasked, with override: it counts, but the next packet asks whether it is true.
        rig.push_packets(1, vec![said("2001:db8::2", 9, 0x20, 255)]);
        assert_eq!(table(&rig), "2001:db8::2 1 09-09-09-09-09-09\n");
        let out = rig.push_packets(0, vec![to("2001:db8::2", "b"), to("2001:db8::2", "c")]);
        assert_eq!((out[0].len(), out[1].len()), (2, 1));
        // It does not prolong the time of the entry.
        for _ in 0..9 {
            rig.pass(Timestamp::from_secs(15));
            rig.push_packets(1, vec![said("2001:db8::2", 9, 0x20, 255)]);
        }
        assert_eq!(table(&rig), "");
    }

    #[test]
    fn addresses_without_an_answer_are_forgotten() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let packets = (0..2050).map(|host| to(&format!("2001:db8::{host:x}"), "a")).collect();
        rig.push_packets(0, packets);
        assert_eq!(rig.stats().held, 2048);
        assert_eq!(rig.stats().drops, [(Reason::TableFull, 2)]);
        rig.pass(Timestamp::from_secs(30));
        assert_eq!(rig.read("table").unwrap(), "");
        assert_eq!(rig.stats().drops, [(Reason::Unresolved, 2048), (Reason::TableFull, 2)]);
        assert!(rig.stats().balanced());
    }
}
