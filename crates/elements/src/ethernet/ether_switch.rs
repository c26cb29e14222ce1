//! EtherSwitch - forwards Ethernet frames to the ports of learned addresses (learning switch)
//!
//! # Synopsis
//! `EtherSwitch([keyword TIMEOUT])`
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
//!
//! # Ports
//! At least two push inputs, the same number of push outputs.
//!
//! # Handlers
//! - `table` (read): the known addresses and their ports, one per line.
//! - `timeout` (read, write): the value of TIMEOUT.
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
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use millrace_core::args::{Args, Seconds};
use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Lock, Offers, Packet, Reason, Setup,
    Timestamp, register,
};

use crate::capability::StationTable;

/// The element; its manual is at the top of the file.
pub struct EtherSwitch {
    learning: Learning,
}

register!(EtherSwitch, "ether_switch.rs");

impl Element for EtherSwitch {
    const CLASS: Class = Class::new("EtherSwitch", "2-/=", "h/h").flow("#/[^#]");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let learning = Learning::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { learning })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.learning.direct(port, &packet) {
                None => drop(cx.drop(packet, Reason::Truncated)),
                Some(Direction::Everywhere) => flood(cx, port, packet),
                Some(Direction::Port(to)) if to == port => drop(cx.drop(packet, Reason::Filtered)),
                Some(Direction::Port(to)) => cx.push(to, packet),
            }
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn StationTable>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Learning::handlers(handlers, |switch| &switch.learning);
    }
}

impl StationTable for EtherSwitch {
    fn port_of(&self, station: EtherAddress) -> Option<usize> {
        self.learning.port_of(station)
    }
}

/// The addresses and their ports.
pub(super) struct Learning {
    /// In seconds; with 0, nothing is learned.
    timeout: AtomicU32,
    addresses: Lock<Addresses>,
    /// The number of addresses learned so far.
    learnt: AtomicU64,
}

type Addresses = HashMap<EtherAddress, Heard, foldhash::fast::FixedState>;

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
pub(super) enum Direction {
    /// To one port, which may be the port that it arrived from.
    Port(usize),
    /// To all ports except the one that it arrived from.
    Everywhere,
}

impl Learning {
    /// Reads TIMEOUT.
    pub(super) fn configure(args: &mut Args<'_>) -> Self {
        let timeout: Seconds = args.keyword("TIMEOUT", Seconds::new(300));
        let timeout = AtomicU32::new(whole(timeout));
        Self { timeout, addresses: Lock::default(), learnt: 0.into() }
    }

    /// Learns from a frame that arrived from `port`, and returns where it goes. None if it is too
    /// short.
    pub(super) fn direct(&self, port: usize, packet: &Packet) -> Option<Direction> {
        let (header, _) = EthernetHeader::view(packet.data())?;
        let timeout = self.timeout.load(Relaxed);
        if timeout == 0 {
            return Some(Direction::Everywhere);
        }
        let mut addresses = self.addresses.lock();
        let now = packet.timestamp();
        let turn = || self.learnt.fetch_add(1, Relaxed);
        let heard =
            addresses.entry(header.src).or_insert_with(|| Heard { port, at: now, turn: turn() });
        (heard.port, heard.at) = (port, now);
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

    /// The port where a station was last heard.
    pub(super) fn port_of(&self, station: EtherAddress) -> Option<usize> {
        self.addresses.lock().get(&station).map(|heard| heard.port)
    }

    /// Registers the handlers of the learning class `E`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("table", move |element: &E, _| of(element).to_text());
        handlers.read("timeout", move |element: &E, _| of(element).timeout.load(Relaxed));
        handlers.write("timeout", move |element: &E, call| {
            let timeout: Seconds = call.parse().map_err(|_| "expected timeout (integer)")?;
            of(element).timeout.store(whole(timeout), Relaxed);
            Ok(())
        });
    }

    /// The table as text, one address per line, in the order of Click's hash table.
    fn to_text(&self) -> String {
        let addresses = self.addresses.lock();
        let buckets = buckets_for(addresses.len());
        let mut lines: Vec<_> = addresses.iter().collect();
        lines.sort_by_key(|(address, heard)| (hash(**address) % buckets, u64::MAX - heard.turn));
        lines.iter().map(|(address, heard)| format!("{address} {}\n", heard.port)).collect()
    }
}

/// Sends a packet to all outputs except one, the last output first.
pub(super) fn flood(cx: &mut Context, source: usize, packet: Packet) {
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
    use millrace_core::{Packet, Reason};

    fn frame(dst: u8, src: u8) -> Packet {
        Packet::from_bytes(&[[dst; 6], [src; 6], [8; 6]].concat()).unwrap()
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
