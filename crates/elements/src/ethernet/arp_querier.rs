//! ARPQuerier - encapsulates IP packets in Ethernet frames, resolving addresses by ARP
//!
//! # Synopsis
//! `ARPQuerier(IP, ETH, keywords TABLE, CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY,
//! CAPACITY_SLIM_FACTOR, TIMEOUT, POLL_TIMEOUT, BROADCAST, BROADCAST_POLL)`
//!
//! `ARPQuerier(NAME, keywords)`
//!
//! # Description
//! Packets at input 0 are IP packets whose destination annotation is the next hop. If its Ethernet
//! address is known, the packet gets an Ethernet header with that address and leaves by output 0.
//! Otherwise the packet waits, and the element sends an ARP query: by output 1 if it exists, otherwise
//! by output 0.
//!
//! ARP replies, with their Ethernet headers, arrive at input 1. The element records the address in a
//! reply and emits the packets that waited for it.
//!
//! Packets for 255.255.255.255 and BROADCAST are broadcast. Packets for a multicast address go to the
//! corresponding Ethernet group (RFC 1112, 6.4). The element sends at most ten queries a second for an
//! address, and one every two seconds after ten without a reply. A query has the VLAN annotation of the
//! packet that caused it.
//!
//! # Arguments
//! - IP: this host's IP address. Positional, mandatory.
//! - ETH: this host's Ethernet address. Positional, mandatory, unless NAME stands for both addresses
//!   (AddressInfo).
//! - TABLE: an ARPTable, or an ARPQuerier whose table this element shares. Default: a table of its own,
//!   configured by the next five arguments.
//! - CAPACITY: maximum number of waiting packets. Default 2048; 0 for no limit.
//! - CAPACITY_SLIM_FACTOR: when more than CAPACITY packets would wait, packets are dropped, those
//!   waiting for the oldest entries first, until 1/CAPACITY_SLIM_FACTOR of CAPACITY is free. Default 2.
//! - ENTRY_CAPACITY: maximum number of entries; a new entry replaces the oldest one. Default 65536;
//!   0 for no limit.
//! - ENTRY_PACKET_CAPACITY: maximum number of packets that wait for one address; further packets are
//!   dropped. Default 0: no limit.
//! - TIMEOUT: how long an entry is valid. Default 5 minutes; 0 for forever.
//! - POLL_TIMEOUT: time without a reply after which a host in use is queried again. Default 1 minute; 0
//!   for never.
//! - BROADCAST: the network's broadcast address. Default: that of IP's prefix, if it has one.
//! - BROADCAST_POLL: whether such a repeated query is broadcast instead of sent to the host. Default
//!   false.
//!
//! # Ports
//! Two push inputs: IP packets, ARP replies. One or two push outputs: frames, queries.
//!
//! # Handlers
//! - `ipaddr` (read, write): this host's IP address; with 0.0.0.0 every packet is dropped.
//! - `broadcast` (read, write): the network's broadcast address.
//! - `config` (read, write): the arguments; only addresses can change.
//! - `table` (read): the entries, one per line, oldest first: IP address, whether it is known, Ethernet
//!   address, age.
//! - `stats` (read): packets dropped, including those dropped by the table, and queries sent, as text.
//! - `queries`, `responses` (read): queries sent; packets at input 1 with a complete ARP message.
//! - `drops` (read): packets dropped for any reason other than that they waited.
//! - `count`, `length` (read): number of entries; number of waiting packets.
//! - `insert` (write): `IP ETH`: adds an entry. Packets waiting for the address continue to wait until
//!   a reply arrives.
//! - `delete` (write): `IP`: forgets an Ethernet address; the entry stays.
//! - `clear` (write): removes all entries, drops the waiting packets, and resets the counters.
//!
//! # Drops
//! - header not set: the packet's destination annotation is 0.0.0.0.
//! - bad source address: this host's address is 0.0.0.0.
//! - unresolved address: no reply arrived before a limit, the timeout or `clear` removed the packet.
//! - truncated, unexpected: at input 1, not a complete ARP reply for Ethernet and IPv4.
//! - no buffer: there was no packet for a query.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4500>, LIMIT 10) -> SetIPAddress(10.0.0.2)
//!   -> arp :: ARPQuerier(10.0.0.1, 1:1:1:1:1:1) -> Discard;
//! Idle -> [1] arp;
//! ```
//!
//! # See also
//! ARPTable, ARPResponder, ARPFaker, AddressInfo, EtherEncap

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::args::{ElementRef, Ipv4Network, Seconds};
use millrace_core::headers::{ArpHeader, EthernetHeader, Header, U16, arp_operation, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Arg, Args, Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Moment, Offers,
    Packet, PerPacket, Reason, Refused, Setup, Timestamp, View, Way, register,
};
use zerocopy::IntoBytes;

use super::arp_cache::{Appended, ArpCache};
use super::arp_table::table_handlers;

/// The element; its manual is at the top of the file.
pub struct ArpQuerier {
    ip: AtomicU32,
    /// In the low 48 bits.
    ether: AtomicU64,
    broadcast: AtomicU32,
    poll_after: Timestamp,
    broadcast_poll: bool,
    own: Arc<ArpCache>,
    /// The element that TABLE names, and its table.
    table: Option<ElementRef>,
    shared: OnceLock<Arc<ArpCache>>,
    queries: AtomicU64,
    responses: AtomicU64,
    drops: AtomicU64,
    /// Whether a packet without a destination was reported.
    reported: AtomicBool,
}

/// A thread's cache of the addresses that it sent to last, indexed by their low bits.
#[derive(Default)]
pub struct Recent(Vec<Known>);

#[derive(Clone)]
struct Known {
    ip: Ipv4Addr,
    header: EthernetHeader,
    /// The version of the table at the time of the lookup.
    version: u32,
    /// When the lookup must be repeated.
    good_until: Timestamp,
}

/// What a query takes from the packet that causes it.
struct Cause {
    ip: Ipv4Addr,
    timestamp: Timestamp,
    tci: u16,
}

impl Cause {
    fn of(packet: &Packet) -> Self {
        Self { ip: packet.dst_ip(), timestamp: packet.timestamp(), tci: packet.vlan_tci() }
    }
}

register!(ArpQuerier, "arp_querier.rs");

impl Element for ArpQuerier {
    const CLASS: Class = Class::new("ARPQuerier", "2/1-2", "h/h").flow("xy/x");
    type Local = Recent;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let args = &mut setup.args;
        let own = ArpCache::configure(args, timer);
        let table = args.optional_keyword("TABLE");
        let poll_after: Seconds = args.keyword("POLL_TIMEOUT", Seconds::new(60));
        let broadcast: Option<Ipv4Addr> = args.optional_keyword("BROADCAST");
        let broadcast_poll = args.keyword("BROADCAST_POLL", false);
        // As in Click, IP and ETH may follow keywords.
        args.consume();
        let Ipv4Network(network) = args.mandatory("IP");
        let ether = ether_argument(args);
        args.complete()?;
        let of_network = || match network.broadcast() {
            host if host == network.address() => Ipv4Addr::BROADCAST,
            broadcast => broadcast,
        };
        Ok(Self {
            ip: u32::from(network.address()).into(),
            ether: bits_of(ether).into(),
            broadcast: u32::from(broadcast.unwrap_or_else(of_network)).into(),
            poll_after: time(poll_after),
            broadcast_poll,
            own: Arc::new(own),
            table,
            shared: OnceLock::new(),
            queries: 0.into(),
            responses: 0.into(),
            drops: 0.into(),
            reported: false.into(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.own.start(init.clock().now());
        if let Some(ElementRef(id)) = self.table {
            // The element is initialised once.
            let _ = self.shared.set(init.require::<ArpCache>(id)?.share());
        }
        Ok(())
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide(self.cache().clone());
    }

    /// Input 1: replies.
    fn push(&self, cx: &mut Context, _: &mut Recent, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.take_response(cx, packet);
        }
    }

    fn run_timer(&self, cx: &mut Context, _: &mut Recent) {
        self.own.clean(cx);
    }

    fn held(&self) -> usize {
        self.own.held()
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if self.shared.get().is_none() && old.shared.get().is_none() {
            self.own.take_state(&old.own, init.clock().now());
        }
    }

    fn footprint(&self) -> Footprint {
        match self.table {
            Some(_) => Footprint::default(),
            None => self.own.footprint(),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        table_handlers(handlers, |querier| querier.cache());
        handlers.read("ipaddr", |querier, _| querier.ip());
        handlers.write("ipaddr", |querier, call| {
            let ip: Ipv4Addr = call.parse()?;
            querier.ip.store(ip.into(), Relaxed);
            // Force threads to repeat their lookups.
            querier.cache().note_change();
            Ok(())
        });
        handlers.read("broadcast", |querier, _| querier.broadcast());
        handlers.write("broadcast", |querier, call| {
            let broadcast: Ipv4Addr = call.parse()?;
            querier.broadcast.store(broadcast.into(), Relaxed);
            Ok(())
        });
        handlers.reconfigure(|querier, new| {
            if !querier.differs_in_addresses_only(&new) {
                return Err("only addresses can change while packets run".into());
            }
            querier.ether.store(new.ether.into_inner(), Relaxed);
            querier.ip.store(new.ip.into_inner(), Relaxed);
            querier.broadcast.store(new.broadcast.into_inner(), Relaxed);
            // Headers that threads remember have the old address.
            querier.cache().note_change();
            Ok(())
        });
        handlers.read("stats", |querier, _| {
            let drops = querier.drops.load(Relaxed) + querier.cache().drops();
            format!("{drops} packets killed\n{} ARP queries sent\n", querier.queries.load(Relaxed))
        });
        handlers.read("queries", |querier, _| querier.queries.load(Relaxed));
        handlers.read("responses", |querier, _| querier.responses.load(Relaxed));
        handlers.read("drops", |querier, _| querier.drops.load(Relaxed));
        handlers.write("clear", |querier, call| {
            for count in [&querier.queries, &querier.responses, &querier.drops] {
                count.store(0, Relaxed);
            }
            querier.cache().clear(call.now());
            Ok(())
        });
    }
}

impl ArpQuerier {
    fn differs_in_addresses_only(&self, other: &Self) -> bool {
        self.poll_after == other.poll_after
            && self.broadcast_poll == other.broadcast_poll
            && self.table.map(|table| table.0) == other.table.map(|table| table.0)
            && self.own.is_configured_like(&other.own)
    }

    /// Looks up an IP packet's address and encapsulates the packet; or makes it wait, and sends a
    /// query.
    fn take_ip(&self, cx: &mut Context, recent: &mut Recent, packet: Packet) -> Option<Packet> {
        if self.ip().is_unspecified() {
            self.drops.fetch_add(1, Relaxed);
            return cx.drop(packet, Reason::BadSource);
        }
        let ip = packet.dst_ip();
        let now = cx.now();
        // Read before the lookup: a change during the lookup invalidates the result.
        let version = self.cache().version();
        let Some(entry) = self.cache().find(ip) else { return self.take_unknown(cx, ip, packet) };
        let Some(ether) = self.cache().ether(&entry, now) else {
            return self.take_unknown(cx, ip, packet);
        };
        if entry.is_stale(now, self.poll_after) && entry.poll(now) {
            let to = if self.broadcast_poll { EtherAddress::BROADCAST } else { ether };
            self.query(cx, Cause::of(&packet), to);
        }
        let good_until = self.cache().good_until(&entry, now, self.poll_after);
        let header = self.header_to(ether);
        recent.learn(Known { ip, header, version, good_until });
        Some(self.encapsulate(packet, ether))
    }

    #[cold]
    fn take_unknown(&self, cx: &mut Context, ip: Ipv4Addr, packet: Packet) -> Option<Packet> {
        if ip.is_broadcast() || ip == self.broadcast() {
            return Some(self.encapsulate(packet, EtherAddress::BROADCAST));
        }
        if ip.is_multicast() {
            return Some(self.encapsulate(packet, EtherAddress::of_ipv4_group(ip)));
        }
        if ip.is_unspecified() {
            if !self.reported.swap(true, Relaxed) {
                let name = cx.router().name_of(cx.element());
                let message = format!(
                    "{name} :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?"
                );
                cx.router().chatter(&message);
            }
            self.drops.fetch_add(1, Relaxed);
            return cx.drop(packet, Reason::NoHeader);
        }
        let now = cx.now();
        let cause = Cause::of(&packet);
        let appended = self.cache().append(ip, packet, now);
        self.cache().account(cx);
        match appended {
            // The reply arrived meanwhile.
            Appended::Known(packet, ether) => return Some(self.encapsulate(packet, ether)),
            Appended::Refused(packet) => return cx.drop(packet, Reason::Unresolved),
            Appended::Waits(asks) => {
                self.cache().count_waiting(cx);
                self.cache().see_to_cleaning(now);
                if asks {
                    self.query(cx, cause, EtherAddress::BROADCAST);
                }
            }
        }
        None
    }

    fn take_response(&self, cx: &mut Context, packet: Packet) {
        let reply = EthernetHeader::view(packet.data())
            .and_then(|(frame, message)| Some((*frame, *ArpHeader::view(message)?.0)));
        let Some((frame, reply)) = reply else {
            cx.drop(packet, Reason::Truncated);
            return;
        };
        self.responses.fetch_add(1, Relaxed);
        let says = |operation| reply.concerns_ipv4() && reply.operation.get() == operation;
        let from = reply.sender_ether;
        if frame.ether_type.get() != ether_type::ARP
            || !says(arp_operation::REPLY)
            || from.is_group()
        {
            cx.drop(packet, Reason::Unexpected);
            return;
        }
        drop(packet);
        cx.consumed(1);
        let now = cx.now();
        let waited = self.cache().insert_and_take(reply.sender(), from, now);
        self.cache().account(cx);
        self.cache().see_to_cleaning(now);
        self.cache().count_leaving(cx, waited.len());
        for packet in waited {
            cx.push(0, self.encapsulate(packet, from));
        }
    }

    fn query(&self, cx: &mut Context, cause: Cause, to: EtherAddress) {
        const LEN: usize = EthernetHeader::LEN + ArpHeader::LEN;
        let own = self.ether();
        let frame = EthernetHeader { dst: to, src: own, ether_type: U16::new(ether_type::ARP) };
        let sender = (own, self.ip());
        let message =
            ArpHeader::new(arp_operation::REQUEST, sender, (EtherAddress([0; 6]), cause.ip));
        cx.created(1);
        let Some(mut query) = Packet::with_room(128, 0, LEN) else {
            return cx.dropped(1, Reason::NoBuffer);
        };
        query.push_back(frame.as_bytes());
        query.push_back(message.as_bytes());
        query.set_mac_header(0);
        query.set_network_header(EthernetHeader::LEN as isize, 0);
        query.set_timestamp(cause.timestamp);
        query.set_vlan_tci(cause.tci);
        self.queries.fetch_add(1, Relaxed);
        cx.push(usize::from(cx.outputs() > 1), query);
    }

    fn encapsulate(&self, mut packet: Packet, to: EtherAddress) -> Packet {
        packet.push_front(self.header_to(to).as_bytes());
        packet.set_mac_header(0);
        packet
    }

    fn ether(&self) -> EtherAddress {
        let [_, _, octets @ ..] = self.ether.load(Relaxed).to_be_bytes();
        EtherAddress(octets)
    }

    fn header_to(&self, to: EtherAddress) -> EthernetHeader {
        EthernetHeader { dst: to, src: self.ether(), ether_type: U16::new(ether_type::IPV4) }
    }

    #[inline]
    fn cache(&self) -> &Arc<ArpCache> {
        self.shared.get().unwrap_or(&self.own)
    }

    fn broadcast(&self) -> Ipv4Addr {
        self.broadcast.load(Relaxed).into()
    }

    fn ip(&self) -> Ipv4Addr {
        self.ip.load(Relaxed).into()
    }
}

/// Fast path: IP packets whose address is cached.
impl PerPacket for ArpQuerier {
    const PREPENDS: usize = EthernetHeader::LEN;

    #[inline(always)]
    fn treat(&self, recent: &mut Recent, packet: &mut View, at: &mut Moment) -> Way {
        let ip = packet.dst_ip();
        match recent.0.get(Recent::place(ip)) {
            Some(known)
                if known.ip == ip
                    && known.version == self.cache().version()
                    && at.now() < known.good_until =>
            {
                packet.push_front(known.header.as_bytes());
                packet.set_mac_header(0);
                Way::ON
            }
            _ => Way::aside(0),
        }
    }

    fn aside(
        &self,
        cx: &mut Context,
        recent: &mut Recent,
        packet: Packet,
        _way: Way,
    ) -> Option<Packet> {
        self.take_ip(cx, recent, packet)
    }
}

impl Recent {
    const LEN: usize = 256;

    #[inline(always)]
    fn place(ip: Ipv4Addr) -> usize {
        u32::from(ip) as usize % Self::LEN
    }

    fn learn(&mut self, known: Known) {
        if self.0.is_empty() {
            // Initially no entry is valid at any time.
            self.0.resize(
                Self::LEN,
                Known { good_until: Timestamp::from_nanos(i64::MIN), ..known.clone() },
            );
        }
        if let Some(place) = self.0.get_mut(Self::place(known.ip)) {
            *place = known;
        }
    }
}

/// Reads ETH. If it is absent, uses the Ethernet address of the name given for IP.
fn ether_argument(args: &mut Args<'_>) -> EtherAddress {
    if let Some(ether) = args.optional("ETH") {
        return ether;
    }
    let named = args.text_of("IP").cloned();
    let ether = named.and_then(|text| EtherAddress::parse(&text, args.scope()).ok());
    ether.unwrap_or_else(|| args.mandatory("ETH"))
}

fn bits_of(ether: EtherAddress) -> u64 {
    let [a, b, c, d, e, f] = ether.octets();
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn time(seconds: Seconds) -> Timestamp {
    Timestamp::from_nanos(i64::try_from(seconds.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};

    const CONFIG: &str = "ARPQuerier(10.0.0.1/24, 1:1:1:1:1:1)";

    fn to(ip: &str, data: &str) -> Packet {
        let mut packet = Packet::from_bytes(data.as_bytes()).unwrap();
        packet.set_dst_ip(ip.parse().unwrap());
        packet
    }

    fn reply(ip: [u8; 4], ether: u8) -> Packet {
        let mut frame = vec![1; 6];
        frame.extend([ether; 6]);
        frame.extend(b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02");
        frame.extend([ether; 6]);
        frame.extend(ip);
        frame.extend([1; 6]);
        frame.extend([10, 0, 0, 1]);
        Packet::from_bytes(&frame).unwrap()
    }

    #[test]
    fn packets_wait_for_a_reply_and_leave_in_order() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        let out = rig.push_packets(0, vec![to("10.0.0.2", "a"), to("10.0.0.2", "b")]);
        assert_eq!((out[0].len(), out[1].len()), (0, 1));
        let query = out[1][0].data();
        assert_eq!(query.len(), 42);
        assert_eq!(query[..14], *b"\xff\xff\xff\xff\xff\xff\x01\x01\x01\x01\x01\x01\x08\x06");
        assert_eq!(query[20..32], *b"\x00\x01\x01\x01\x01\x01\x01\x01\x0a\x00\x00\x01");
        assert_eq!(query[38..42], [10, 0, 0, 2]);
        assert_eq!(rig.read("length").unwrap(), "2");

        let out = rig.push_packets(1, vec![reply([10, 0, 0, 2], 8)]);
        let sent: Vec<&[u8]> = out[0].iter().map(Packet::data).collect();
        let header = b"\x08\x08\x08\x08\x08\x08\x01\x01\x01\x01\x01\x01\x08\x00";
        assert_eq!(sent, [[&header[..], b"a"].concat(), [&header[..], b"b"].concat()]);
        let out = rig.push_packets(0, vec![to("10.0.0.2", "c")]);
        assert_eq!((out[0].len(), out[1].len()), (1, 0));
        assert!(rig.stats().balanced());
    }

    #[test]
    fn broadcast_and_multicast_need_no_query() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let addresses = ["10.0.0.255", "255.255.255.255", "224.1.2.3", "0.0.0.0"];
        let out = rig.push_packets(0, addresses.map(|ip| to(ip, "x")).into());
        let destinations: Vec<&[u8]> = out[0].iter().map(|packet| &packet.data()[..6]).collect();
        assert_eq!(destinations, [[0xff; 6], [0xff; 6], [1, 0, 0x5e, 1, 2, 3]]);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }

    #[test]
    fn packets_for_silent_hosts_are_dropped_after_the_timeout() {
        let mut rig = Rig::new("ARPQuerier(10.0.0.1, 1:1:1:1:1:1, TIMEOUT 10s)", 2, 1).unwrap();
        rig.push_packets(0, vec![to("10.0.0.2", "a")]);
        rig.pass(Timestamp::from_secs(5));
        assert_eq!(rig.read("length").unwrap(), "1");
        // The entry expires after 10 seconds; cleanups are at 10, 21, ... seconds.
        rig.pass(Timestamp::from_secs(16));
        assert_eq!(rig.stats().drops, [(Reason::Unresolved, 1)]);
        assert_eq!(rig.read("count").unwrap(), "0");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn an_entry_in_use_is_queried_again_before_it_expires() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        rig.write("insert", "10.0.0.2 7:7:7:7:7:7").unwrap();
        let queries = |rig: &mut Rig| {
            let out = rig.push_packets(0, vec![to("10.0.0.2", "x")]);
            assert_eq!(out[0].len(), 1);
            out[1].iter().map(|query| query.data()[..6].to_vec()).collect::<Vec<_>>()
        };
        assert!(queries(&mut rig).is_empty());
        rig.pass(Timestamp::from_secs(61));
        for _ in 0..3 {
            assert_eq!(queries(&mut rig), [[7; 6]]);
            assert!(queries(&mut rig).is_empty(), "ten a second at most");
            rig.pass(Timestamp::from_millis(100));
        }
        assert!(rig.read("table").unwrap().starts_with("10.0.0.2 1 07-07-07-07-07-07 61."));
    }

    #[test]
    fn an_entry_inserted_by_a_handler_does_not_release_waiting_packets() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        rig.push_packets(0, vec![to("10.0.0.2", "a")]);
        rig.write("insert", "10.0.0.2 7:7:7:7:7:7").unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(1))[0].len(), 0);
        assert_eq!(rig.push_packets(1, vec![reply([10, 0, 0, 2], 8)])[0].len(), 1);
        rig.write("delete", "10.0.0.2").unwrap();
        assert_eq!(rig.push_packets(0, vec![to("10.0.0.2", "a")])[0].len(), 0);
        rig.write("clear", "").unwrap();
        rig.pass(Timestamp::from_millis(1));
        assert_eq!(rig.stats().drops, [(Reason::Unresolved, 1)]);
        assert!(rig.stats().balanced());
        assert!(rig.write("insert", "10.0.0.2").is_err());
    }

    #[test]
    fn invalid_replies_are_dropped() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let whole = reply([10, 0, 0, 2], 7);
        let cut = Packet::from_bytes(&whole.data()[..41]).unwrap();
        let group = reply([10, 0, 0, 2], 0xff);
        rig.push_packets(1, vec![cut, group, Packet::from_bytes(b"").unwrap()]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 2), (Reason::Unexpected, 1)]);
        assert_eq!(rig.read("count").unwrap(), "0");
    }
}
