//! The flows of AggregateIPFlows: by addresses and ports, with the fragments that wait.
//!
//! This is not the [table that other elements share](crate::flows::table): every packet changes its flow in several
//! places, packets wait here for one another, time is that of the packets, and flows end in the order of their numbers.
//! One thread at a time has all of it. How long a flow may be silent depends on the state of its connection, and it
//! does not end while a fragment waits; the shared table has one timeout, and forgets flows when it needs the room.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::net::Ipv4Addr;

use foldhash::fast::RandomState;
use millrace_core::headers::{
    self, Header, IcmpHeader, Ipv4Header, icmp_type, protocol, tcp_flags,
};
use millrace_core::{Footprint, Packet, Timestamp};

use crate::flows::key::{FlowId, Key};

/// The flows.
pub(super) struct FlowTable {
    timeouts: Timeouts,
    limits: Limits,
    /// Whether to record what only the trace needs.
    traces: bool,
    /// Keyed by hosts and ports, the lower address first.
    flows: HashMap<Key, Flow, RandomState>,
    /// Packets between two hosts that wait for a fragment.
    waiting: HashMap<Key, VecDeque<Waiting>, RandomState>,
    /// The number of packets that wait.
    all_waiting: usize,
    /// The second in which a full table last deleted the flows that had ended.
    made_room: Option<i64>,
    next: u32,
    /// The second of the last packet that was processed.
    now: i64,
    next_reap: i64,
}

/// Timeouts, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) tcp: i64,
    pub(super) tcp_done: i64,
    pub(super) udp: i64,
    pub(super) fragment: i64,
    pub(super) reap: i64,
}

/// How much there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) flows: usize,
    /// Packets that wait for a fragment.
    pub(super) waiting: usize,
}

/// A packet that leaves.
pub(super) enum Out {
    /// The packet has its flow's number.
    Flow(Packet),
    /// The packet belongs to no flow.
    Other(Packet),
    /// A fragment whose first fragment did not arrive.
    Lost(Packet),
    /// There is no room for its flow, or for it to wait.
    Refused(Packet),
}

struct Flow {
    aggregate: u32,
    /// The first packet came from the higher address.
    reverse: bool,
    /// A bit for each direction that has sent its FIN.
    over: u8,
    first: Timestamp,
    last: Timestamp,
    packets: [u32; 2],
    file_position: u32,
}

struct Waiting {
    packet: Packet,
    /// The identification that its fragments share.
    id: u16,
    is_fragment: bool,
    /// Its flow and paint, once they are known.
    flow: Option<(Key, u8)>,
}

/// The summary of a flow that has ended.
pub(super) struct Record {
    pub(super) aggregate: u32,
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    begin: Timestamp,
    duration: Timestamp,
    file_position: u32,
    packets: [u32; 2],
}

/// Both sides have sent FIN, or one has sent RST.
const OVER: u8 = 3;
const UDP: u32 = protocol::UDP as u32;

impl FlowTable {
    pub(super) fn new(timeouts: Timeouts, limits: Limits, traces: bool) -> Self {
        Self {
            timeouts,
            limits,
            traces,
            flows: HashMap::default(),
            waiting: HashMap::default(),
            all_waiting: 0,
            made_room: None,
            next: 1,
            now: 0,
            next_reap: 0,
        }
    }

    /// What the table takes when it is full.
    pub(super) fn footprint(&self) -> Footprint {
        /// A packet that waits, in a queue that has doubled, and at worst alone in it.
        const WAITING: usize = 4 * size_of::<Waiting>() + 3 * size_of::<(Key, VecDeque<Waiting>)>();
        let waiting = self.limits.waiting;
        Footprint::hash_table(self.limits.flows, size_of::<(Key, Flow)>())
            .and(Footprint::tables(waiting.saturating_mul(WAITING)))
            .and(Footprint::packets(waiting))
    }

    /// The number of packets that wait.
    pub(super) fn waiting(&self) -> usize {
        self.all_waiting
    }

    /// Processes a packet. Packets that leave go to `out`, this packet last. Returns the flows that have ended.
    pub(super) fn take(
        &mut self,
        mut packet: Packet,
        icmp: bool,
        with_fragments: bool,
        file_position: impl Fn() -> u32,
        out: &mut Vec<Out>,
    ) -> Vec<Record> {
        let mut ended = Vec::new();
        let Some(seen) = Seen::of(&packet, icmp) else {
            out.push(Out::Other(packet));
            return ended;
        };
        let Seen { hosts, mut paint, is_fragment, id, .. } = seen;
        let key = match seen.ports {
            Ports::None => None,
            Ports::CutOff => {
                out.push(Out::Other(packet));
                return ended;
            }
            Ports::Of(ports) => {
                let key = Key { flow: FlowId { ports, ..hosts.flow }, ..hosts };
                let time = packet.timestamp();
                if self.flows.len() >= self.limits.flows && !self.flows.contains_key(&key) {
                    ended.extend(self.make_room(time.sec(), out));
                    if self.flows.len() >= self.limits.flows {
                        out.push(Out::Refused(packet));
                        return ended;
                    }
                }
                let position = || if self.traces { file_position() } else { 0 };
                let may_restart = seen.is_syn;
                let reverse = paint & 1 == 1;
                let timeouts = self.timeouts;
                let next = &mut self.next;
                let new = |next: &mut u32| {
                    let aggregate = *next;
                    *next = next.wrapping_add(1);
                    Flow {
                        aggregate,
                        reverse,
                        over: 0,
                        first: time,
                        last: time,
                        packets: [0; 2],
                        file_position: position(),
                    }
                };
                let flow = self.flows.entry(key).or_insert_with(|| new(next));
                let age = time.sec() - flow.last.sec();
                if age > timeouts.of(&key, flow) || (flow.over == OVER && may_restart) {
                    ended.push(flow.record(&key));
                    *flow = new(next);
                }
                paint ^= u8::from(flow.reverse);
                packet.set_aggregate(flow.aggregate);
                packet.set_paint(paint);
                Some(key)
            }
        };
        let has_to_wait = with_fragments && is_fragment && key.is_none();
        let waits = (with_fragments && is_fragment) || self.waiting.contains_key(&hosts);
        let has_room = self.all_waiting < self.limits.waiting;
        if has_to_wait && !has_room {
            out.push(Out::Refused(packet));
            return ended;
        }
        if waits && has_room {
            let time = packet.timestamp().sec();
            let flow = key.map(|key| (key, paint));
            let waiting = Waiting { packet, id, is_fragment, flow };
            self.waiting.entry(hosts).or_default().push_back(waiting);
            self.all_waiting += 1;
            self.now = time;
            self.let_waiting_go(hosts, out);
            return ended;
        }
        match key {
            Some(key) => {
                self.now = packet.timestamp().sec();
                self.emit(packet, &key, paint, out);
            }
            None => out.push(Out::Other(packet)),
        }
        ended
    }

    /// Deletes the flows that have ended, at most once in a second: there may be none, and it looks at all.
    fn make_room(&mut self, second: i64, out: &mut Vec<Out>) -> Vec<Record> {
        if self.made_room.replace(second) == Some(second) {
            return Vec::new();
        }
        self.now = second;
        self.forget_ended(out)
    }

    /// From time to time, deletes flows that have ended and releases packets that have waited too long.
    pub(super) fn reap(&mut self, out: &mut Vec<Out>) -> Vec<Record> {
        if self.now < self.next_reap {
            return Vec::new();
        }
        let is_first = self.next_reap == 0;
        self.next_reap = self.now + self.timeouts.reap;
        if is_first { Vec::new() } else { self.forget_ended(out) }
    }

    /// Ends all flows; releases the packets that wait.
    pub(super) fn clear(&mut self, out: &mut Vec<Out>) -> Vec<Record> {
        let now = std::mem::replace(&mut self.now, i64::MAX / 2);
        let records = self.forget_ended(out);
        self.now = now;
        records
    }

    /// Ends all flows, even those with waiting packets.
    pub(super) fn end(&mut self) -> Vec<Record> {
        let mut records: Vec<_> = self.flows.drain().map(|(key, flow)| flow.record(&key)).collect();
        records.sort_unstable_by_key(|record| record.aggregate);
        records
    }

    fn forget_ended(&mut self, out: &mut Vec<Out>) -> Vec<Record> {
        let hosts: Vec<Key> = self.waiting.keys().copied().collect();
        for hosts in hosts {
            self.let_waiting_go(hosts, out);
        }
        let Self { flows, waiting, timeouts, now, .. } = self;
        let mut records = Vec::new();
        flows.retain(|key, flow| {
            // A packet that waits may still need its flow.
            let age = *now - flow.last.sec();
            let keep = waiting.contains_key(&hosts_of(*key)) || age <= timeouts.of(key, flow);
            if !keep {
                records.push(flow.record(key));
            }
            keep
        });
        records.sort_unstable_by_key(|record| record.aggregate);
        records
    }

    /// Releases packets between two hosts, up to the first fragment that may still wait.
    fn let_waiting_go(&mut self, hosts: Key, out: &mut Vec<Out>) {
        let since = self.now - self.timeouts.fragment;
        let Some(mut waiting) = self.waiting.remove(&hosts) else { return };
        while let Some(head) = waiting.front() {
            if head.is_fragment && head.packet.timestamp().sec() >= since {
                break;
            }
            let Some(mut head) = waiting.pop_front() else { break };
            self.all_waiting -= 1;
            let same = |other: &&mut Waiting| other.id == head.id;
            if head.flow.is_some() {
                waiting.iter_mut().filter(same).for_each(|other| other.flow = head.flow);
            } else {
                head.flow = waiting.iter_mut().filter(same).find_map(|other| other.flow);
            }
            match head.flow {
                Some((key, paint)) => self.emit(head.packet, &key, paint, out),
                None => out.push(Out::Lost(head.packet)),
            }
        }
        if !waiting.is_empty() {
            self.waiting.insert(hosts, waiting);
        }
    }

    /// Emits a packet of a known flow.
    fn emit(&mut self, mut packet: Packet, key: &Key, paint: u8, out: &mut Vec<Out>) {
        if let Some(flow) = self.flows.get_mut(key) {
            packet.set_aggregate(flow.aggregate);
            packet.set_paint(paint);
            flow.last = packet.timestamp();
            if let Some(count) = flow.packets.get_mut(usize::from(paint)) {
                *count = count.wrapping_add(1);
                if let Some(flags) = flags_of(&packet) {
                    flow.over = match flags {
                        _ if flags & tcp_flags::RST != 0 => OVER,
                        _ if flags & tcp_flags::FIN != 0 => flow.over | 1 << paint,
                        _ if flags & tcp_flags::SYN != 0 => 0,
                        _ => flow.over,
                    };
                }
            }
        }
        out.push(Out::Flow(packet));
    }
}

impl Timeouts {
    /// How long a flow may be silent.
    fn of(&self, key: &Key, flow: &Flow) -> i64 {
        match key.space {
            UDP => self.udp,
            _ if flow.over == OVER => self.tcp_done,
            _ => self.tcp,
        }
    }
}

/// The hosts of a flow, without their ports.
fn hosts_of(key: Key) -> Key {
    Key { flow: FlowId { ports: 0, ..key.flow }, ..key }
}

/// What identifies a packet's flow.
struct Seen {
    /// The lower address first, without ports.
    hosts: Key,
    ports: Ports,
    /// 1 if the packet came from the higher address, plus 2 for an ICMP error.
    paint: u8,
    is_fragment: bool,
    id: u16,
    is_syn: bool,
}

enum Ports {
    /// In the order of the hosts.
    Of(u32),
    /// A later fragment.
    None,
    CutOff,
}

impl Seen {
    fn of(packet: &Packet, icmp: bool) -> Option<Seen> {
        let bytes = packet.network_data()?;
        let (outer, _) = Ipv4Header::view(bytes)?;
        let (bytes, error) = match outer.protocol {
            protocol::ICMP if icmp && outer.is_first_fragment() => (quoted(packet)?, 2),
            _ => (bytes, 0),
        };
        let (ip, _) = Ipv4Header::view(bytes)?;
        let (source, destination) = (ip.source(), ip.destination());
        let is_known = ip.protocol == protocol::TCP || ip.protocol == protocol::UDP;
        if !is_known || (source.is_unspecified() && destination.is_unspecified()) {
            return None;
        }
        let (hosts, mut flipped) = FlowId::of_hosts(source, destination).ordered();
        let ports = if ip.is_first_fragment() {
            match ip.transport(bytes).and_then(headers::ports) {
                Some((from, to)) => {
                    flipped ^= source == destination && from > to;
                    let (low, high) = if flipped { (to, from) } else { (from, to) };
                    Ports::Of(u32::from(low) << 16 | u32::from(high))
                }
                None => Ports::CutOff,
            }
        } else {
            Ports::None
        };
        Some(Seen {
            hosts: Key { flow: hosts, space: ip.protocol.into() },
            ports,
            paint: error | u8::from(flipped),
            is_fragment: ip.is_fragment(),
            id: ip.id.get(),
            is_syn: flags_of(packet).is_some_and(|flags| flags & tcp_flags::SYN != 0),
        })
    }
}

/// The datagram that an ICMP error quotes.
fn quoted(packet: &Packet) -> Option<&[u8]> {
    let (icmp, datagram) = IcmpHeader::view(packet.transport_data()?)?;
    let is_error = matches!(
        icmp.kind,
        icmp_type::UNREACHABLE
            | icmp_type::TIME_EXCEEDED
            | icmp_type::PARAMETER_PROBLEM
            | icmp_type::SOURCE_QUENCH
            | icmp_type::REDIRECT
    );
    let (ip, _) = Ipv4Header::view(datagram)?;
    let whole = (Ipv4Header::LEN..=datagram.len()).contains(&ip.header_len());
    (is_error && whole).then_some(datagram)
}

/// The flags of a TCP packet; a capture may have cut off the end of its header.
fn flags_of(packet: &Packet) -> Option<u8> {
    let (ip, _) = Ipv4Header::view(packet.network_data()?)?;
    let is_tcp = ip.protocol == protocol::TCP && ip.is_first_fragment();
    packet.transport_data().filter(|_| is_tcp)?.get(13).copied()
}

impl Flow {
    fn record(&self, key: &Key) -> Record {
        let low = (Ipv4Addr::from(key.flow.source()), key.flow.source_port());
        let high = (Ipv4Addr::from(key.flow.destination()), key.flow.destination_port());
        let (source, destination) = if self.reverse { (high, low) } else { (low, high) };
        Record {
            aggregate: self.aggregate,
            source,
            destination,
            begin: self.first,
            duration: self.last - self.first,
            file_position: self.file_position,
            packets: self.packets,
        }
    }
}

impl Record {
    /// Writes the record in the format of TRACEINFO.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Record { aggregate, begin, duration, packets, .. } = self;
        let ((source, sport), (destination, dport)) = (self.source, self.destination);
        write!(
            out,
            "<flow aggregate='{aggregate}' src='{source}' sport='{sport}' dst='{destination}' \
             dport='{dport}' begin='{begin}' duration='{duration}'"
        )?;
        if self.file_position != 0 {
            write!(out, " filepos='{}'", self.file_position)?;
        }
        let [forth, back] = packets;
        writeln!(
            out,
            ">\n  <stream dir='0' packets='{forth}' /><stream dir='1' packets='{back}' />\n</flow>"
        )
    }
}
