//! ARPQuerier - puts IP packets into Ethernet frames, asking for addresses by ARP
//!
//! # Synopsis
//! `ARPQuerier(IP, ETH, keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, TIMEOUT, POLL_TIMEOUT, BROADCAST, BROADCAST_POLL)`
//!
//! `ARPQuerier(NAME, keywords)`
//!
//! # Description
//! Packets at input 0 are IP packets whose destination annotation names the next hop. When its
//! Ethernet address is known, the packet gets an Ethernet header with it and leaves by output 0.
//! Otherwise the packet waits and a query is sent: by output 1 if there is one, else by output 0.
//!
//! ARP replies, with their Ethernet headers, come to input 1: what they say is recorded, and the
//! packets that waited for it are sent.
//!
//! Packets for 255.255.255.255 and BROADCAST are broadcast; those for a multicast address go to
//! the Ethernet group that belongs to it (RFC 1112, 6.4). At most ten queries a second are sent
//! for an address, and one in two seconds after ten without a reply. Queries have the VLAN
//! annotation of the packet that caused them.
//!
//! # Arguments
//! - IP: this host's IP address. Positional, mandatory.
//! - ETH: this host's Ethernet address. Positional, mandatory, unless NAME stands for both
//!   (AddressInfo).
//! - CAPACITY: most packets that wait; beyond it the half that has waited longest is dropped.
//!   Default 2048; 0 for no limit.
//! - ENTRY_CAPACITY: most entries in the table. Default 0: no limit.
//! - ENTRY_PACKET_CAPACITY: most packets that wait for one address. Default 0: no limit.
//! - TIMEOUT: how long an entry is good for. Default 5 minutes; 0 for ever.
//! - POLL_TIMEOUT: after this time without word a host in use is asked again. Default 1 minute; 0
//!   for never.
//! - BROADCAST: the network's broadcast address. Default: that of IP's prefix, when it has one.
//! - BROADCAST_POLL: whether such a question is broadcast rather than sent to the host. Default
//!   false.
//!
//! # Ports
//! Two push inputs: IP packets, ARP replies. One or two push outputs: frames, queries.
//!
//! # Handlers
//! - `ipaddr` (read, write): this host's IP address.
//! - `broadcast` (read): the network's broadcast address.
//! - `table` (read): the entries, a line each: address, whether it is known, Ethernet address, age.
//! - `stats` (read): packets dropped and queries sent, in words.
//! - `queries`, `responses`, `drops` (read): queries sent, replies got, packets dropped.
//! - `count`, `length` (read): entries; packets that wait.
//! - `insert` (write): `IP ETH`: adds an entry.
//! - `delete` (write): `IP`: removes an entry.
//! - `clear` (write): removes every entry.
//!
//! # Drops
//! - no header set: the packet's destination annotation is 0.0.0.0.
//! - unresolved address: no reply came before the packet had to go.
//! - table full: no room for another entry.
//! - truncated, unexpected: at input 1, no whole ARP reply for Ethernet and IPv4.
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
//! ARPResponder, AddressInfo, EtherEncap

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_core::args::{Ipv4Network, Seconds};
use millrace_core::headers::{ArpHeader, EthernetHeader, Header, U16, arp_operation, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Arg, Args, Batch, Class, Context, Element, Failed, Handlers, Packet, PerPacket, Reason, Setup,
    Timer, Timestamp, Way, register,
};
use zerocopy::IntoBytes;

use super::arp_cache::{ArpCache, Waiting};

/// The element; its manual is at the top of the file.
pub struct ARPQuerier {
    ip: AtomicU32,
    ether: EtherAddress,
    broadcast: Ipv4Addr,
    poll_after: Timestamp,
    broadcast_poll: bool,
    cache: ArpCache,
    waiting: Mutex<Waiting>,
    queries: AtomicU64,
    responses: AtomicU64,
    drops: AtomicU64,
    /// Cleans up, and sends what waits for entries that a handler made.
    timer: Timer,
}

/// What a thread knows of the addresses that it sent to last, by their low bits.
#[derive(Default)]
pub struct Recent(Vec<Known>);

#[derive(Clone)]
struct Known {
    ip: Ipv4Addr,
    header: EthernetHeader,
    /// The version of the table that it was found in.
    version: u32,
    /// When it is to be looked at again, in milliseconds since the epoch.
    good_until: i64,
}

/// What one batch needs.
pub struct Pass<'a> {
    recent: &'a mut Recent,
    version: u32,
    /// In milliseconds since the epoch.
    now: i64,
}

register!(ARPQuerier, "arp_querier.rs");

const BROADCAST: EtherAddress = EtherAddress([0xff; 6]);
/// How often old entries are looked for.
const CLEANING: Timestamp = Timestamp::from_secs(1);

impl Element for ARPQuerier {
    const CLASS: Class = Class::new("ARPQuerier", "2/1-2", "h/h").flow("xy/x");
    type Local = Recent;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let args = &mut setup.args;
        let Ipv4Network(network) = args.mandatory("IP");
        let ether = ether_argument(args);
        let capacity: u32 = args.keyword("CAPACITY", 2048);
        let entries: u32 = args.keyword("ENTRY_CAPACITY", 0);
        let capacity_each: u32 = args.keyword("ENTRY_PACKET_CAPACITY", 0);
        let timeout: Seconds = args.keyword("TIMEOUT", Seconds::new(300));
        let poll_after: Seconds = args.keyword("POLL_TIMEOUT", Seconds::new(60));
        let broadcast: Option<Ipv4Addr> = args.optional_keyword("BROADCAST");
        let broadcast_poll = args.keyword("BROADCAST_POLL", false);
        args.complete()?;
        let of_network = || match network.length() {
            Some(0..=30) => network.broadcast(),
            _ => Ipv4Addr::BROADCAST,
        };
        Ok(Self {
            ip: u32::from(network.address()).into(),
            ether,
            broadcast: broadcast.unwrap_or_else(of_network),
            poll_after: time(poll_after),
            broadcast_poll,
            cache: ArpCache::new(time(timeout), entries as usize),
            waiting: Mutex::new(Waiting::new(capacity as usize, capacity_each as usize)),
            queries: 0.into(),
            responses: 0.into(),
            drops: 0.into(),
            timer,
        })
    }

    fn push(&self, cx: &mut Context, recent: &mut Recent, port: usize, batch: &mut Batch) {
        if port == 0 {
            self.treat_batch(cx, recent, batch);
            cx.push_batch(0, batch);
        } else {
            for packet in batch.drain() {
                self.take_response(cx, packet);
            }
        }
    }

    fn run_timer(&self, cx: &mut Context, _: &mut Recent) {
        let now = cx.now();
        self.cache.expire(now);
        let addresses = self.waiting().addresses();
        for ip in addresses {
            match self.cache.find(ip) {
                None => {
                    let dropped = self.waiting().take(ip).len();
                    self.count_drops(cx, dropped, Reason::Unresolved);
                }
                Some(entry) if !entry.is_unknown() => self.release(cx, ip),
                Some(_) => {}
            }
        }
        if self.cache.len() > 0 || self.waiting().len() > 0 {
            self.timer.schedule_at(now + CLEANING);
        }
    }

    fn held(&self) -> usize {
        self.waiting().len()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("ipaddr", |querier, _| querier.ip());
        handlers.write("ipaddr", |querier, call| {
            let ip: Ipv4Addr = call.parse()?;
            querier.ip.store(ip.into(), Relaxed);
            Ok(())
        });
        handlers.read("broadcast", |querier, _| querier.broadcast);
        handlers.read("table", |querier, call| querier.cache.to_text(call.now()));
        handlers.read("stats", |querier, _| {
            let (drops, queries) = (querier.drops.load(Relaxed), querier.queries.load(Relaxed));
            format!("{drops} packets killed\n{queries} ARP queries sent\n")
        });
        handlers.read("queries", |querier, _| querier.queries.load(Relaxed));
        handlers.read("responses", |querier, _| querier.responses.load(Relaxed));
        handlers.read("drops", |querier, _| querier.drops.load(Relaxed));
        handlers.read("count", |querier, _| querier.cache.len());
        handlers.read("length", |querier, _| querier.waiting().len());
        handlers.write("insert", |querier, call| {
            let mut args = call.args();
            let words = args.rest();
            let [entry] = words.as_slice() else { return Err("expected ‘IP ETH’".into()) };
            let (ip, ether) = entry.split_first_word();
            let ip: Option<Ipv4Addr> = args.parse_as("IP", &ip);
            let ether: Option<EtherAddress> = args.parse_as("ETH", &ether);
            let (Some(ip), Some(ether)) = (ip, ether) else { return Err(args.messages().into()) };
            if !querier.cache.insert(ip, ether, call.now()) {
                return Err("the table is full".into());
            }
            // What waits for the entry is sent, and the entry will have to expire.
            querier.timer.schedule_at(call.now());
            Ok(())
        });
        handlers.write("delete", |querier, call| {
            querier.cache.remove(call.parse()?);
            querier.timer.schedule_at(call.now());
            Ok(())
        });
        handlers.write("clear", |querier, call| {
            querier.cache.clear();
            querier.timer.schedule_at(call.now());
            Ok(())
        });
    }
}

impl ARPQuerier {
    /// Puts an IP packet into its frame after a look into the table; or lets it wait, and asks.
    fn take_ip(&self, cx: &mut Context, pass: &mut Pass<'_>, packet: Packet) -> Option<Packet> {
        let ip = packet.dst_ip();
        let now = cx.now();
        let Some(entry) = self.cache.find(ip) else { return self.take_unknown(cx, ip, packet) };
        let Some(ether) = self.cache.ether(&entry, now) else {
            return self.take_unknown(cx, ip, packet);
        };
        if entry.is_stale(now, self.poll_after) && entry.poll(now) {
            let to = if self.broadcast_poll { BROADCAST } else { ether };
            self.query(cx, ip, to, packet.vlan_tci());
        }
        let good_until = self.cache.good_until(&entry, now, self.poll_after);
        let header = self.header_to(ether);
        pass.recent.learn(Known { ip, header, version: pass.version, good_until });
        Some(self.encapsulate(packet, ether))
    }

    #[cold]
    fn take_unknown(&self, cx: &mut Context, ip: Ipv4Addr, packet: Packet) -> Option<Packet> {
        if ip.is_unspecified() {
            self.drops.fetch_add(1, Relaxed);
            return cx.drop(packet, Reason::NoHeader);
        }
        if ip.is_broadcast() || ip == self.broadcast {
            return Some(self.encapsulate(packet, BROADCAST));
        }
        if ip.is_multicast() {
            return Some(self.encapsulate(packet, EtherAddress::of_ipv4_group(ip)));
        }
        let now = cx.now();
        let Some(entry) = self.cache.ensure(ip, now) else {
            self.drops.fetch_add(1, Relaxed);
            return cx.drop(packet, Reason::TableFull);
        };
        let tci = packet.vlan_tci();
        let mut waiting = self.waiting();
        if let Some(ether) = self.cache.ether(&entry, now) {
            // The reply came meanwhile.
            return Some(self.encapsulate(packet, ether));
        }
        let dropped = waiting.add(ip, packet);
        drop(waiting);
        self.count_drops(cx, dropped, Reason::Unresolved);
        if self.timer.expiry().is_none() {
            self.timer.schedule_at(now + CLEANING);
        }
        if entry.poll(now) {
            self.query(cx, ip, BROADCAST, tci);
        }
        None
    }

    fn take_response(&self, cx: &mut Context, packet: Packet) {
        let reply = EthernetHeader::view(packet.data())
            .and_then(|(_, message)| ArpHeader::view(message))
            .map(|(reply, _)| *reply);
        let Some(reply) = reply else {
            cx.drop(packet, Reason::Truncated);
            return;
        };
        let operation = reply.operation.get();
        let from = reply.sender_ether;
        if !reply.is_ethernet_ipv4() || operation != arp_operation::REPLY || from.is_group() {
            cx.drop(packet, Reason::Unexpected);
            return;
        }
        drop(packet);
        cx.consumed(1);
        self.responses.fetch_add(1, Relaxed);
        let ip = reply.sender();
        if self.cache.insert(ip, from, cx.now()) {
            if self.timer.expiry().is_none() {
                self.timer.schedule_at(cx.now() + CLEANING);
            }
            self.release(cx, ip);
        }
    }

    /// Sends the packets that wait for an address that is known.
    fn release(&self, cx: &mut Context, ip: Ipv4Addr) {
        let now = cx.now();
        let ether = self.cache.find(ip).and_then(|entry| self.cache.ether(&entry, now));
        let Some(ether) = ether else { return };
        let packets = self.waiting().take(ip);
        for packet in packets {
            let frame = self.encapsulate(packet, ether);
            cx.push(0, frame);
        }
    }

    fn query(&self, cx: &mut Context, ip: Ipv4Addr, to: EtherAddress, tci: u16) {
        const LEN: usize = EthernetHeader::LEN + ArpHeader::LEN;
        let frame =
            EthernetHeader { dst: to, src: self.ether, ether_type: U16::new(ether_type::ARP) };
        let sender = (self.ether, self.ip());
        let message = ArpHeader::new(arp_operation::REQUEST, sender, (EtherAddress([0; 6]), ip));
        cx.created(1);
        let Some(mut query) = Packet::with_room(128, 0, LEN) else {
            return cx.dropped(1, Reason::NoBuffer);
        };
        query.push_back(frame.as_bytes());
        query.push_back(message.as_bytes());
        query.set_mac_header(0);
        query.set_network_header(EthernetHeader::LEN as isize, 0);
        query.set_timestamp(cx.now());
        query.set_vlan_tci(tci);
        self.queries.fetch_add(1, Relaxed);
        cx.push(usize::from(cx.outputs() > 1), query);
    }

    fn encapsulate(&self, mut packet: Packet, to: EtherAddress) -> Packet {
        prepend(&mut packet, &self.header_to(to));
        packet
    }

    fn header_to(&self, to: EtherAddress) -> EthernetHeader {
        EthernetHeader { dst: to, src: self.ether, ether_type: U16::new(ether_type::IPV4) }
    }

    fn count_drops(&self, cx: &mut Context, n: usize, reason: Reason) {
        self.drops.fetch_add(n as u64, Relaxed);
        cx.dropped(n, reason);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ip(&self) -> Ipv4Addr {
        self.ip.load(Relaxed).into()
    }
}

/// IP packets on their way to who is known.
impl PerPacket for ARPQuerier {
    type Pass<'a> = Pass<'a>;

    #[inline(always)]
    fn begin<'a>(&'a self, cx: &Context, recent: &'a mut Recent) -> Pass<'a> {
        Pass { recent, version: self.cache.version(), now: cx.now().as_millis() }
    }

    #[inline(always)]
    fn treat(pass: &mut Pass<'_>, packet: &mut Packet) -> Way {
        let ip = packet.dst_ip();
        match pass.recent.0.get(Recent::place(ip)) {
            Some(known) if known.ip == ip && known.version == pass.version => {
                if known.good_until <= pass.now {
                    return Way::aside(0);
                }
                prepend(packet, &known.header);
                Way::ON
            }
            _ => Way::aside(0),
        }
    }

    #[cold]
    fn aside(
        &self,
        cx: &mut Context,
        pass: &mut Pass<'_>,
        packet: Packet,
        _way: Way,
    ) -> Option<Packet> {
        self.take_ip(cx, pass, packet)
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
            // No entry is good for the time before.
            self.0.resize(Self::LEN, Known { good_until: i64::MIN, ..known.clone() });
        }
        if let Some(place) = self.0.get_mut(Self::place(known.ip)) {
            *place = known;
        }
    }
}

#[inline(always)]
fn prepend(packet: &mut Packet, header: &EthernetHeader) {
    packet.push_front(header.as_bytes());
    packet.set_mac_header(0);
}

/// The argument ETH; the Ethernet address of the name given for IP when it is absent.
fn ether_argument(args: &mut Args<'_>) -> EtherAddress {
    if let Some(ether) = args.optional("ETH") {
        return ether;
    }
    let named = args.text_of("IP").cloned();
    let ether = named.and_then(|text| EtherAddress::parse(&text, args.scope()).ok());
    ether.unwrap_or_else(|| args.mandatory("ETH"))
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
    fn asks_waits_and_sends_in_order() {
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
    fn broadcast_and_multicast_need_no_question() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let addresses = ["10.0.0.255", "255.255.255.255", "224.1.2.3", "0.0.0.0"];
        let out = rig.push_packets(0, addresses.map(|ip| to(ip, "x")).into());
        let destinations: Vec<&[u8]> = out[0].iter().map(|packet| &packet.data()[..6]).collect();
        assert_eq!(destinations, [[0xff; 6], [0xff; 6], [1, 0, 0x5e, 1, 2, 3]]);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }

    #[test]
    fn packets_for_hosts_that_do_not_answer_are_dropped_in_the_end() {
        let mut rig = Rig::new("ARPQuerier(10.0.0.1, 1:1:1:1:1:1, TIMEOUT 10s)", 2, 1).unwrap();
        rig.push_packets(0, vec![to("10.0.0.2", "a")]);
        rig.pass(Timestamp::from_secs(5));
        assert_eq!(rig.read("length").unwrap(), "1");
        rig.pass(Timestamp::from_secs(10));
        assert_eq!(rig.stats().drops, [(Reason::Unresolved, 1)]);
        assert_eq!(rig.read("count").unwrap(), "0");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn an_entry_in_use_is_asked_for_again_before_it_expires() {
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
    fn a_handler_can_make_an_entry_that_packets_wait_for() {
        let mut rig = Rig::new(CONFIG, 2, 2).unwrap();
        rig.push_packets(0, vec![to("10.0.0.2", "a")]);
        rig.write("insert", "10.0.0.2 7:7:7:7:7:7").unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(1))[0].len(), 1);
        rig.write("delete", "10.0.0.2").unwrap();
        assert_eq!(rig.push_packets(0, vec![to("10.0.0.2", "a")])[0].len(), 0);
        assert!(rig.write("insert", "10.0.0.2").is_err());
    }

    #[test]
    fn nonsense_at_the_reply_input_is_dropped() {
        let mut rig = Rig::new(CONFIG, 2, 1).unwrap();
        let whole = reply([10, 0, 0, 2], 7);
        let cut = Packet::from_bytes(&whole.data()[..41]).unwrap();
        let group = reply([10, 0, 0, 2], 0xff);
        rig.push_packets(1, vec![cut, group, Packet::from_bytes(b"").unwrap()]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 2), (Reason::Unexpected, 1)]);
        assert_eq!(rig.read("count").unwrap(), "0");
    }
}
