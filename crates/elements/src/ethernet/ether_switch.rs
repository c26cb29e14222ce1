//! EtherSwitch - forwards Ethernet frames to the ports of learned addresses (learning switch)
//!
//! # Synopsis
//! `EtherSwitch([keywords TIMEOUT, CAPACITY])`
//!
//! # Description
//! Each pair of an input and the output with the same number is a LAN. The element learns from each
//! frame that its source address is in the LAN that it arrives from. Later frames for that address go
//! to that LAN only, and are dropped if they arrive from it. Frames for groups and for unknown
//! addresses go to all other LANs. Times are those of the packets' timestamps.
//!
//! # Arguments
//! - TIMEOUT: how many seconds after its last frame an address is remembered. With 0, nothing is
//!   learned. Default 300.
//! - CAPACITY: maximum number of addresses. While there are as many, those whose time is over are
//!   removed, and further ones are not learned: frames for them go to all other LANs. Default 65536.
//!
//! # Ports
//! At least two push inputs, the same number of push outputs.
//!
//! # Handlers
//! - `table` (read): the known addresses and their ports, one per line.
//! - `timeout` (read, write): the value of TIMEOUT.
//! - `unlearned` (read): frames whose source address was not learned because there were CAPACITY.
//!
//! # Drops
//! - filtered: the destination is in the LAN that the frame arrives from.
//! - truncated: the packet is shorter than an Ethernet header.
//! - no buffer: there was no memory for a copy of the frame.
//!
//! # Example
//! ```click
//! switch :: EtherSwitch;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [0] switch [0] -> Discard;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [1] switch [1] -> Discard;
//! ```
//!
//! # See also
//! ListenEtherSwitch, EtherSpanTree

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;
use millrace_core::args::{Args, Kind, Seconds};
use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Lock, Offers, Packet, Reason,
    Setup, Timestamp, register,
};

use crate::capability::StationTable;

/// The class; its manual is at the top of the file.
pub struct EtherSwitch;

register!(Switch<EtherSwitch>, "ether_switch.rs");

impl SwitchClass for EtherSwitch {
    const CLASS: Class = Class::new("EtherSwitch", "2-/=", "h/h").flow("#/[^#]");

    fn send(cx: &mut Context, from: usize, to: usize, packet: Packet) {
        match to == from {
            true => drop(cx.drop(packet, Reason::Filtered)),
            false => cx.push(to, packet),
        }
    }
}

/// A class of elements that learn at which port a station is.
pub(super) trait SwitchClass: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// Sends a frame that arrived from port `from`, for a station at port `to`.
    fn send(cx: &mut Context, from: usize, to: usize, packet: Packet);
}

/// An element of such a class.
pub(super) struct Switch<C> {
    learning: Learning,
    class: PhantomData<C>,
}

impl<C: SwitchClass> Element for Switch<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let learning = Learning::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { learning, class: PhantomData })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.learning.direct(port, &packet) {
                None => drop(cx.drop(packet, Reason::Truncated)),
                Some(Direction::Everywhere) => flood(cx, port, packet),
                Some(Direction::Port(to)) => C::send(cx, port, to, packet),
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |switch, _| switch.learning.to_text());
        handlers.read("timeout", |switch, _| switch.learning.timeout.load(Relaxed));
        handlers.read("unlearned", |switch, _| switch.learning.unlearned.load(Relaxed));
        handlers.write("timeout", |switch, call| {
            let timeout: Seconds = call.parse().map_err(|_| "expected timeout (integer)")?;
            switch.learning.timeout.store(whole(timeout), Relaxed);
            Ok(())
        });
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn StationTable>(self.clone());
    }

    fn footprint(&self) -> Footprint {
        self.learning.footprint()
    }
}

impl<C: SwitchClass> StationTable for Switch<C> {
    fn port_of(&self, station: EtherAddress) -> Option<usize> {
        self.learning.addresses.lock().heard.get(&station).map(|heard| heard.port)
    }
}

/// The addresses and their ports.
struct Learning {
    /// In seconds; with 0, nothing is learned.
    timeout: AtomicU32,
    /// The maximum number of addresses.
    capacity: usize,
    addresses: Lock<Addresses>,
    /// Frames whose source address was not learned because there were too many.
    unlearned: AtomicU64,
    /// The number of addresses learned so far.
    learnt: AtomicU64,
}

/// Where addresses were heard, and when it was last checked which times are over.
#[derive(Default)]
struct Addresses {
    heard: HashMap<EtherAddress, Heard, RandomState>,
    checked: Timestamp,
}

/// Where an address was last seen.
#[derive(Clone, Copy)]
struct Heard {
    port: usize,
    /// The timestamp of the packet.
    at: Timestamp,
    /// The sequence number of the address.
    turn: u64,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To one port, which may be the port that it arrived from.
    Port(usize),
    /// To all ports except the one that it arrived from.
    Everywhere,
}

impl Learning {
    /// Reads TIMEOUT and CAPACITY.
    fn configure(args: &mut Args<'_>) -> Self {
        let timeout: Seconds = args.keyword("TIMEOUT", Seconds::new(300));
        let timeout = AtomicU32::new(whole(timeout));
        let capacity = args.in_range("CAPACITY", Kind::Keyword, 1..=1u32 << 30).unwrap_or(65_536);
        Self {
            timeout,
            capacity: capacity as usize,
            addresses: Lock::default(),
            unlearned: 0.into(),
            learnt: 0.into(),
        }
    }

    /// What the table takes when it is full.
    fn footprint(&self) -> Footprint {
        Footprint::hash_table(self.capacity, size_of::<(EtherAddress, Heard)>())
    }

    /// Learns from a frame that arrived from `port`, and returns where it goes. None if it is too
    /// short.
    fn direct(&self, port: usize, packet: &Packet) -> Option<Direction> {
        let (header, _) = EthernetHeader::view(packet.data())?;
        let timeout = self.timeout.load(Relaxed);
        if timeout == 0 {
            return Some(Direction::Everywhere);
        }
        let mut addresses = self.addresses.lock();
        let now = packet.timestamp();
        if addresses.heard.len() >= self.capacity && !addresses.heard.contains_key(&header.src) {
            addresses.forget(now, Timestamp::from_secs(timeout.into()));
        }
        let addresses = &mut addresses.heard;
        let is_full = addresses.len() >= self.capacity;
        match addresses.entry(header.src) {
            Slot::Occupied(mut slot) => {
                let heard = slot.get_mut();
                (heard.port, heard.at) = (port, now);
            }
            Slot::Vacant(_) if is_full => {
                self.unlearned.fetch_add(1, Relaxed);
            }
            Slot::Vacant(slot) => {
                slot.insert(Heard { port, at: now, turn: self.learnt.fetch_add(1, Relaxed) });
            }
        }
        if header.dst.is_group() {
            return Some(Direction::Everywhere);
        }
        let Some(known) = addresses.get(&header.dst).copied() else {
            return Some(Direction::Everywhere);
        };
        if now < known.at + Timestamp::from_secs(timeout.into()) {
            return Some(Direction::Port(known.port));
        }
        addresses.remove(&header.dst);
        Some(Direction::Everywhere)
    }

    /// The table as text, one address per line, in the order of Click's hash table.
    fn to_text(&self) -> String {
        let addresses = &self.addresses.lock().heard;
        let buckets = buckets_for(addresses.len());
        let mut lines: Vec<_> = addresses.iter().collect();
        lines.sort_by_key(|(address, heard)| (hash(**address) % buckets, u64::MAX - heard.turn));
        lines.iter().map(|(address, heard)| format!("{address} {}\n", heard.port)).collect()
    }
}

impl Addresses {
    /// Removes the addresses whose time is over; not more often than once a second.
    fn forget(&mut self, now: Timestamp, timeout: Timestamp) {
        const PERIOD: Timestamp = Timestamp::from_secs(1);
        if self.checked <= now && now < self.checked + PERIOD {
            return;
        }
        self.checked = now;
        self.heard.retain(|_, heard| now < heard.at + timeout);
    }
}

/// Sends a packet to all outputs except one, the last output first.
fn flood(cx: &mut Context, source: usize, packet: Packet) {
    let mut ports = (0..cx.outputs()).rev().filter(|&port| port != source);
    let Some(first) = ports.next() else {
        // There is no other output.
        cx.drop(packet, Reason::Unconnected);
        return;
    };
    let mut port = first;
    for next in ports {
        copy_to(cx, port, &packet);
        port = next;
    }
    cx.push(port, packet);
}

/// Sends a copy of a packet.
pub(super) fn copy_to(cx: &mut Context, port: usize, packet: &Packet) {
    cx.created(1);
    match packet.share() {
        Some(copy) => cx.push(port, copy),
        None => cx.dropped(1, Reason::NoBuffer),
    }
}

fn whole(time: Seconds) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The hash by which Click orders Ethernet addresses.
fn hash(address: EtherAddress) -> u64 {
    let [a, b, c, d, e, f] = address.octets();
    let word = |low, high| u64::from(u16::from_le_bytes([low, high]));
    (word(e, f) | word(c, d) << 16) ^ word(a, b) << 9
}

/// The number of buckets of Click's hash table with this many entries.
fn buckets_for(entries: usize) -> u64 {
    let mut buckets = 63;
    while entries as u64 > 2 * buckets {
        buckets = 2 * buckets + 1;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};

    fn frame(dst: u8, src: u8) -> Packet {
        Packet::from_bytes(&[[dst; 6], [src; 6], [8; 6]].concat()).unwrap()
    }

    #[test]
    fn addresses_without_end_do_not_fill_the_memory() {
        let mut rig = Rig::new("EtherSwitch(TIMEOUT 10, CAPACITY 3)", 2, 2).unwrap();
        let at = |seconds: i64, dst: u8, src: u8| {
            let mut packet = frame(dst, src);
            packet.set_timestamp(Timestamp::from_secs(seconds));
            packet
        };
        rig.push_packets(0, (2..10).map(|host| at(1, 0xff, host * 2)).collect());
        assert_eq!(rig.read("table").unwrap().lines().count(), 3);
        assert_eq!(rig.read("unlearned").unwrap(), "5");
        // Who is not known is reached all the same.
        assert_eq!(rig.push_packets(1, vec![at(2, 18, 4)])[0].len(), 1);
        // Their time is over, but for the one that was heard again.
        rig.push_packets(1, vec![at(11, 0xff, 18)]);
        assert_eq!(rig.read("table").unwrap().lines().count(), 2);
    }

    #[test]
    fn every_packet_is_accounted_for() {
        let mut rig = Rig::new("EtherSwitch", 3, 3).unwrap();
        let cut = Packet::from_bytes(b"short").unwrap();
        let out = rig.push_packets(0, vec![frame(4, 2), frame(2, 4), cut, frame(0xff, 6)]);
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2, 2]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1), (Reason::Truncated, 1)]);
        assert!(rig.stats().balanced());
    }
}
