//! IPReassembler - reassembles fragmented IP packets
//!
//! # Synopsis
//! `IPReassembler([keyword HIMEM, MAX_MTU_ANNO])`
//!
//! # Description
//! Passes unfragmented IP packets unchanged. Holds fragments until all fragments of their packet have arrived, then
//! emits the reassembled packet. The packet has a correct length and checksum. The header, the bytes before it, and the
//! annotations are those of the first fragment; the timestamp is that of the fragment that arrived last. Where
//! fragments overlap, later arrivals overwrite earlier ones.
//!
//! A packet that is still incomplete after 30 seconds expires. It leaves by output 1, with each received fragment in
//! its place and zeros in the gaps. The check runs when a fragment arrives, at most every 10 seconds by the fragments'
//! timestamps. A packet whose first fragment is missing expires at the first check.
//!
//! The memory for fragments is limited. When packets use more than HIMEM bytes, some are discarded until three quarters
//! of HIMEM are in use: first packets older than ten seconds, then those older than five, then any. They leave by
//! output 1 too.
//!
//! # Arguments
//! - HIMEM: bytes of memory for fragments. Each packet counts as its data plus 40 bytes. Keyword, default 262144.
//! - MAX_MTU_ANNO: a two-byte annotation, by name or offset, that is set to the length of the packet's longest
//!   fragment. Keyword, default none.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: whole packets. Output 1, push, optional: incomplete packets, for example for
//! an ICMPError with `timeexceeded, reassembly`.
//!
//! # Handlers
//! - `dump` (read): the number of fragments seen, of packets reassembled, of packets discarded for lack of memory, and
//!   of bad fragments; then, for each incomplete packet, its flow, its identification and the byte ranges received.
//!
//! # Drops
//! - header not set: the packet's network header is not set.
//! - bad length: a fragment that is empty, ends beyond byte 65535 or beyond the packet's data, extends beyond the end
//!   of its datagram, or does not end at a multiple of eight bytes although it is not the last.
//! - no buffer: there was no memory for a fragment that is not the first of its packet.
//! - expired: an incomplete packet expired or was discarded for lack of memory, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 1400, LIMIT 10)
//!     -> IPEncap(udp, 1.0.0.1, 2.0.0.2)
//!     -> IPFragmenter(576)
//!     -> IPReassembler
//!     -> Discard;
//! ```
//!
//! # See also
//! IPFragmenter, ICMPError

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write;

use foldhash::fast::RandomState;
use millrace_core::args::Annotation;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::memory::DEFAULT_HEADROOM;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Lock, Packet, Reason, Setup,
    Timestamp, register,
};

use super::{network_header, network_header_mut};

/// The element; its manual is at the top of the file.
pub struct IpReassembler {
    most_memory: usize,
    longest_annotation: Option<usize>,
    state: Lock<State>,
}

/// The element's state.
#[derive(Default)]
struct State {
    parts: HashMap<Key, Part, RandomState>,
    /// The number of parts created so far.
    made: u64,
    /// Bytes of memory accounted to the parts.
    memory: usize,
    /// When to look for expired parts next, in seconds.
    reap_at: i64,
    fragments: u32,
    whole: u32,
    given_up: u32,
    bad: u32,
}

/// The fields that all fragments of a packet share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    id: u16,
    protocol: u8,
    src: [u8; 4],
    dst: [u8; 4],
}

/// An incomplete packet.
struct Part {
    /// The data received so far.
    packet: Packet,
    /// The ranges of its data that have arrived, in order, with gaps in between.
    ranges: Vec<(usize, usize)>,
    /// Whether the last fragment has arrived, so that the length is known.
    has_end: bool,
    /// The serial number of the part.
    number: u64,
}

/// A fragment: where its data begins and ends in the packet, and whether it is the last.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    is_last: bool,
}

register!(IpReassembler, "ip_reassembler.rs");

impl Element for IpReassembler {
    const CLASS: Class = Class::new("IPReassembler", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let most_memory: u32 = setup.args.keyword("HIMEM", 256 * 1024);
        let annotation: Option<Annotation<2>> = setup.args.optional_keyword("MAX_MTU_ANNO");
        setup.args.complete()?;
        let longest_annotation = annotation.map(|Annotation(offset)| offset);
        Ok(Self { most_memory: most_memory as usize, longest_annotation, state: Lock::default() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| match network_header(&packet) {
            Some(ip) if !ip.is_fragment() => Some(packet),
            Some(_) => self.take(cx, packet),
            None => cx.drop(packet, Reason::NoHeader),
        });
    }

    fn held(&self) -> usize {
        self.state.lock().parts.len()
    }

    fn footprint(&self) -> Footprint {
        // Each part accounts for itself, and has a packet; the lists of ranges may be half as long as the data.
        let parts = self.most_memory / PART_MEMORY;
        Footprint::hash_table(parts, size_of::<(Key, Part)>())
            .and(Footprint::tables(self.most_memory / 2))
            .and(Footprint::packets(parts))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("dump", |element, _| element.state.lock().dump());
    }
}

/// Bytes accounted to a part in addition to its data.
const PART_MEMORY: usize = 40;

/// Seconds after which a part expires.
const TIMEOUT: i64 = 30;

/// Seconds between two searches for expired parts.
const REAP_INTERVAL: i64 = 10;

impl IpReassembler {
    /// Accepts a fragment; returns its packet when that is complete.
    fn take(&self, cx: &mut Context, mut packet: Packet) -> Option<Packet> {
        if packet.timestamp().sec() == 0 {
            packet.set_timestamp(cx.now());
        }
        let now = packet.timestamp().sec();
        let mut state = self.state.lock();
        state.fragments = state.fragments.wrapping_add(1);
        let mut expired = Vec::new();
        if now >= state.reap_at {
            state.reap_at = now + REAP_INTERVAL;
            expired = state.give_up(|since| since < now - TIMEOUT, 0);
        }
        let place = place(&mut packet);
        if place.is_some() && state.memory > self.most_memory {
            expired.extend(state.make_room(now, self.most_memory / 4 * 3));
        }
        let taken = match place {
            Some((key, place)) => self.insert(&mut state, key, place, packet),
            None => {
                state.bad = state.bad.wrapping_add(1);
                Err((packet, Reason::BadLength))
            }
        };
        drop(state);
        for part in expired {
            cx.push_or_drop(1, part, Reason::Expired);
        }
        match taken {
            Ok(Taken::Kept) => None,
            Ok(Taken::Merged) => {
                cx.consumed(1);
                None
            }
            Ok(Taken::Completed(whole)) => {
                cx.consumed(1);
                Some(whole)
            }
            Err((packet, reason)) => cx.drop(packet, reason),
        }
    }

    fn insert(
        &self,
        state: &mut State,
        key: Key,
        place: Place,
        packet: Packet,
    ) -> Result<Taken, (Packet, Reason)> {
        let len = packet.network_data().map_or(0, <[u8]>::len) as u16;
        let State { parts, memory, made, whole, .. } = state;
        match parts.entry(key) {
            Entry::Vacant(vacant) => {
                let mut part = Part::of(packet, place, *made)?;
                *made += 1;
                *memory += PART_MEMORY + place.end;
                if let Some(offset) = self.longest_annotation {
                    let len = part.packet.network_data().map_or(0, <[u8]>::len) as u16;
                    part.packet.set_anno_u16(offset, len);
                }
                vacant.insert(part);
                Ok(Taken::Kept)
            }
            Entry::Occupied(mut occupied) => {
                let part = occupied.get_mut();
                let before = part.data_len();
                if place.end > before && part.has_end {
                    return Err((packet, Reason::BadLength));
                }
                let longest = self.longest_annotation;
                let longest = longest.map(|at| (at, part.packet.anno_u16(at).max(len)));
                part.add(&packet, place);
                *memory += place.end.saturating_sub(before);
                if let Some((offset, len)) = longest {
                    part.packet.set_anno_u16(offset, len);
                }
                if !part.is_complete() {
                    return Ok(Taken::Merged);
                }
                *whole = whole.wrapping_add(1);
                let part = occupied.remove();
                *memory = memory.saturating_sub(PART_MEMORY + part.data_len());
                Ok(Taken::Completed(part.finish(packet.timestamp())))
            }
        }
    }
}

/// What happened to a fragment.
enum Taken {
    /// It is the first to arrive of its packet, and is kept.
    Kept,
    /// Its data was copied into its packet.
    Merged,
    /// Its data was copied into its packet, which is now complete.
    Completed(Packet),
}

/// The place of a fragment, which is truncated to its length; `None` if its fields are inconsistent.
fn place(packet: &mut Packet) -> Option<(Key, Place)> {
    let ip = network_header(packet)?;
    let key = Key { id: ip.id.get(), protocol: ip.protocol, src: ip.src, dst: ip.dst };
    let header_len = ip.header_len();
    let len = usize::from(ip.total_len.get()).checked_sub(header_len).filter(|&len| len > 0)?;
    let start = ip.fragment_offset();
    let place = Place { start, end: start + len, is_last: !ip.more_fragments() };
    let sound = header_len >= Ipv4Header::LEN
        && place.end <= usize::from(u16::MAX)
        && (place.is_last || place.end.is_multiple_of(8))
        && packet.transport_data()?.len() >= len;
    let begin = packet.transport_offset()?;
    sound.then(|| packet.truncate(begin + len))?;
    Some((key, place))
}

impl Part {
    /// A part of one fragment.
    fn of(mut packet: Packet, place: Place, number: u64) -> Result<Self, (Packet, Reason)> {
        if place.start > 0 {
            // Put its data where it belongs, after a provisional header.
            let made = Packet::with_room(DEFAULT_HEADROOM, Ipv4Header::LEN + place.end, 0);
            let Some(mut room) = made else { return Err((packet, Reason::NoBuffer)) };
            room.set_network_header(0, Ipv4Header::LEN);
            if let (Some(to), Some(from)) = (room.network_data_mut(), packet.network_data()) {
                to.iter_mut().zip(from).take(Ipv4Header::LEN).for_each(|(to, from)| *to = *from);
            }
            copy_data(&mut room, &packet, place.start);
            packet = room;
        }
        if let Some(ip) = network_header_mut(&mut packet) {
            let flags = ip.flags_fragment.get() & !Ipv4Header::OFFSET_MASK;
            ip.flags_fragment.set(flags);
        }
        let ranges = vec![(place.start, place.end)];
        Ok(Self { packet, ranges, has_end: place.is_last, number })
    }

    fn data_len(&self) -> usize {
        self.packet.transport_data().map_or(0, <[u8]>::len)
    }

    /// Adds a fragment.
    fn add(&mut self, fragment: &Packet, place: Place) {
        let missing = place.end.saturating_sub(self.data_len());
        if missing > 0 {
            self.packet.append(missing).fill(0);
        }
        copy_data(&mut self.packet, fragment, place.start);
        if place.start == 0 {
            self.take_header(fragment);
        }
        self.has_end |= place.is_last;
        if place.is_last
            && let Some(ip) = network_header_mut(&mut self.packet)
        {
            let flags = ip.flags_fragment.get() & !Ipv4Header::MORE_FRAGMENTS;
            ip.flags_fragment.set(flags);
        }
        let (mut start, mut end) = (place.start, place.end);
        self.ranges.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        let at = self.ranges.partition_point(|&(from, _)| from < start);
        self.ranges.insert(at, (start, end));
    }

    /// Copies the header of the first fragment, the bytes before it, and its annotations.
    fn take_header(&mut self, first: &Packet) {
        let flags = network_header(&self.packet).map_or(0, |ip| ip.flags_fragment.get());
        let (Some(network), Some(transport)) = (first.network_offset(), first.transport_offset())
        else {
            return;
        };
        let (Some(front), Some(old)) =
            (first.data().get(..transport), self.packet.transport_offset())
        else {
            return;
        };
        let Some(header_len) = transport.checked_sub(network) else { return };
        if !self.packet.strip(old) {
            return;
        }
        self.packet.push_front(front);
        self.packet.set_network_header(network as isize, header_len);
        if let Some(mac) = first.mac_header() {
            self.packet.set_mac_header(mac);
        }
        self.packet.copy_annotations(first);
        self.packet.set_timestamp(first.timestamp());
        if let Some(ip) = network_header_mut(&mut self.packet) {
            ip.flags_fragment.set(flags);
        }
    }

    fn is_complete(&self) -> bool {
        self.has_end && self.ranges == [(0, self.data_len())]
    }

    /// Finishes a complete packet.
    fn finish(mut self, timestamp: Timestamp) -> Packet {
        self.packet.set_timestamp(timestamp);
        // Click keeps its notes on a part in this annotation.
        self.packet.set_extra_length(0);
        if let Some(header) = self.packet.network_data_mut() {
            let len = header.len();
            if let Some((ip, _)) = Ipv4Header::view_mut(header) {
                ip.total_len.set(len as u16);
            }
            Ipv4Header::fill_checksum(header);
        }
        self.packet
    }
}

/// Copies the data of a fragment into its packet, where there is room.
fn copy_data(to: &mut Packet, fragment: &Packet, start: usize) {
    let from = fragment.transport_data().unwrap_or_default();
    let room = to.transport_data_mut().and_then(|data| data.get_mut(start..));
    room.unwrap_or_default().iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

impl State {
    /// Removes parts for which `is_old` returns true, given the time of their first fragment, until the memory
    /// accounted to the rest is at most `enough`. If `enough` is 0, removes all such parts.
    fn give_up(&mut self, is_old: impl Fn(i64) -> bool, enough: usize) -> Vec<Packet> {
        let old = self.parts.iter().filter(|(_, part)| is_old(part.packet.timestamp().sec()));
        let mut old: Vec<Key> = old.map(|(key, _)| *key).collect();
        old.sort_unstable_by_key(|key| self.place_of(key));
        let mut given_up = Vec::new();
        for key in old {
            if enough > 0 && self.memory <= enough {
                break;
            }
            if let Some(part) = self.parts.remove(&key) {
                self.memory = self.memory.saturating_sub(PART_MEMORY + part.data_len());
                given_up.push(part.packet);
            }
        }
        given_up
    }

    fn make_room(&mut self, now: i64, enough: usize) -> Vec<Packet> {
        let mut given_up = Vec::new();
        for age in [10, 5, 0] {
            if self.memory > enough {
                given_up.extend(self.give_up(|since| age == 0 || since < now - age, enough.max(1)));
            }
        }
        self.given_up = self.given_up.wrapping_add(given_up.len() as u32);
        given_up
    }

    /// The order of parts in Click: in lists by the upper byte of the identification, newest first.
    fn place_of(&self, key: &Key) -> (u16, u64) {
        (key.id >> 8, self.parts.get(key).map_or(0, |part| u64::MAX - part.number))
    }

    fn dump(&self) -> String {
        let mut text = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\n\
             bad fragments seen:  {}\ncached chunk data:\n",
            self.fragments, self.whole, self.given_up, self.bad
        );
        let mut parts: Vec<(&Key, &Part)> = self.parts.iter().collect();
        parts.sort_unstable_by_key(|(key, _)| self.place_of(key));
        for (key, part) in parts {
            let port = |at: usize| {
                let bytes = part.packet.transport_data().and_then(|data| data.get(at..));
                bytes.and_then(<[u8]>::first_chunk::<2>).map_or(0, |port| u16::from_be_bytes(*port))
            };
            let (src, dst) = (std::net::Ipv4Addr::from(key.src), std::net::Ipv4Addr::from(key.dst));
            // Writing to a string cannot fail.
            let _ = write!(text, " ({src}, {}, {dst}, {}) {}", port(0), port(2), key.id);
            for (start, end) in &part.ranges {
                let _ = write!(text, " ({start},{end})");
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, read, withstands};

    fn fragment(whole: &Datagram, start: usize, end: usize) -> Packet {
        let more_fragments = end < whole.payload.len();
        let payload = whole.payload[start..end].to_vec();
        let fragment_offset = (start / 8) as u16;
        Datagram { payload, fragment_offset, more_fragments, ..whole.clone() }.packet()
    }

    proptest! {
        /// Fragments of a datagram in any order, some duplicated or overlapping, yield the datagram, but not before the
        /// last byte has arrived.
        #[test]
        fn fragments_in_any_order_are_reassembled(
            len in 17usize..900,
            cuts in prop::collection::vec(0usize..113, 1..8),
            overlaps in prop::collection::vec((0usize..113, 1usize..9), 0..5),
            seed: u64,
        ) {
            let whole = Datagram {
                payload: (0..len).map(|byte| byte as u8).collect(),
                options: vec![7, 7, 4, 0, 0, 0, 0, 0],
                ..Datagram::of(17)
            };
            let mut edges: Vec<usize> = cuts.iter().map(|cut| cut * 8).filter(|&at| at < len).collect();
            edges.extend([0, 8, len]);
            edges.sort_unstable();
            edges.dedup();
            let mut pieces: Vec<(usize, usize)> =
                edges.windows(2).map(|edge| (edge[0], edge[1])).collect();
            let more = overlaps.iter().map(|(start, len)| (start * 8, start * 8 + len * 8));
            pieces.extend(more.map(|(start, end)| (start, end.min(len))).filter(|&(start, end)| {
                // A piece that reaches past the datagram's end is its last fragment; one that covers all of it is no
                // fragment.
                start < end && (start, end) != (0, len)
            }));
            fastrand::Rng::with_seed(seed).shuffle(&mut pieces);

            let mut rig = Rig::new("IPReassembler", 1, 1).unwrap();
            let mut there = vec![false; len];
            let mut done = 0;
            for (start, end) in pieces {
                let out = rig.push_packets(0, vec![fragment(&whole, start, end)]).remove(0);
                there[start..end].fill(true);
                let complete = there.iter().all(|there| *there);
                prop_assert_eq!(out.len(), usize::from(complete));
                if let Some(packet) = out.first() {
                    prop_assert_eq!(packet.data(), whole.bytes());
                    read(packet.data());
                    there.fill(false);
                    done += 1;
                }
            }
            prop_assert!(done >= 1);
            prop_assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("IPReassembler", 1);
        withstands("IPReassembler(HIMEM 100, MAX_MTU_ANNO 20)", 2);
    }
}
