//! One direction of a connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::headers::tcp_flags::{ACK, FIN, RST, SYN};
use millrace_core::headers::{Header, TcpHeader};
use millrace_core::{Packet, Reason, Timestamp};

use super::{Arrival, Limits};
use crate::streams::mark::{self, Kind, Mark};
use crate::streams::positions::Positions;
use crate::streams::segment::{Blank, Segment};

/// The bytes from one end to the other.
#[derive(Default)]
pub(crate) struct Stream {
    /// The sequence number of the SYN, once it was seen.
    first: Option<u32>,
    /// The position of the next byte for the elements.
    next: u64,
    /// The position of the FIN.
    fin: Option<u64>,
    /// Segments after a gap, by position.
    early: Vec<Early>,
    /// The memory that they take.
    early_bytes: usize,
    /// Bytes that elements hold back.
    held_bytes: usize,
    positions: Positions,
    /// The changed position before which the receiver has everything.
    acknowledged: u64,
    /// The changed bytes that end at `stored_to`: behind the last byte that has left.
    store: VecDeque<u8>,
    stored_to: u64,
    last_byte: u8,
    /// An element has closed the connection, and the receiver has been told.
    is_closed: bool,
    /// Elements must forget the connection before this one.
    is_renewed: bool,
    sender: Sender,
    /// The payload of its longest segment.
    largest: usize,
    /// The longest payload that the receiver takes.
    most: usize,
    /// Elements hold bytes back. They leave with the next ones, and are sent again with them.
    is_held: bool,
    /// The last bytes were held back, and left without others.
    is_flushed: bool,
    /// When elements began to hold bytes back, without another byte since.
    pub(crate) held_since: Option<Timestamp>,
    /// Packets that were made of segments beside the ones that arrived, by which the identification of the next ones moves
    /// on.
    pub(crate) made: u16,
    ledger: Option<Arc<Ledger>>,
    /// What the ledger has of this stream.
    entered: (usize, usize),
}

/// What all streams of an element take.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes of memory.
    pub(crate) bytes: AtomicUsize,
    /// Packets that wait.
    pub(crate) waiting: AtomicUsize,
    /// Packets that waited when their connection ended.
    pub(crate) lost: AtomicUsize,
}

/// What the sender of a stream has said about itself and the other one.
#[derive(Default)]
struct Sender {
    blank: Blank,
    scale: u8,
    segment_size: u16,
    /// Its latest timestamp, and the one that it echoed then.
    timestamps: Option<(u32, u32)>,
    permits_sack: bool,
    /// The window as it last said it, before scaling.
    window: u16,
    /// Acknowledgment and window as they were last sent on.
    told: Option<(u32, u16)>,
}

/// A segment that waits.
struct Early {
    start: u64,
    end: u64,
    packet: Packet,
    segment: Segment,
}

impl Early {
    /// The memory that a packet takes while it waits.
    fn bytes_of(packet: &Packet) -> usize {
        packet.headroom() + packet.len() + packet.tailroom()
    }
}

/// The number of segments that wait in a stream.
const MOST_EARLY: usize = 2048;
/// The number of pieces that a stream may consist of while it is not acknowledged.
const MOST_PIECES: usize = 16_384;
/// A store of fewer bytes keeps its memory while it has any.
const LEAST_STORE: usize = 4096;
/// The longest payload that is made: with room for headers in an IP packet.
const LONGEST_SEGMENT: usize = 65_535 - 160;
/// The shortest longest payload (RFC 9293, 3.7.1).
const LEAST_SEGMENT: usize = 536;

impl Stream {
    /// The stream after a SYN that has gone on to its receiver.
    pub(crate) fn begun_by(packet: &Packet, segment: &Segment) -> Self {
        let mut stream = Self::default();
        (stream.next, stream.stored_to, stream.is_renewed) = (1, 1, true);
        stream.see(packet, segment);
        stream.positions.add(1, 1);
        stream
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn began_at(&self, sequence: u32) -> bool {
        self.first == Some(sequence)
    }

    /// Whether a segment of the other direction acknowledges the SYN and nothing else.
    pub(crate) fn is_answered_by(&self, segment: &Segment) -> bool {
        self.has_begun() && segment.acknowledgment == self.sequence(1)
    }

    /// Whether the receiver has acknowledged anything.
    pub(crate) fn was_heard(&self) -> bool {
        self.acknowledged > 0
    }

    /// Whether a reset in this direction is one that its receiver believes: it stands where the next byte is, as far as
    /// that is known here, or it refuses the other one's SYN.
    pub(crate) fn ends_with(&self, reset: &Segment, back: &Self) -> bool {
        let end = self.positions.original_end();
        match self.has_begun() {
            true => {
                let from = self.positions.acknowledged(self.acknowledged);
                u64::try_from(self.position(reset.sequence, end))
                    .is_ok_and(|at| (from..=end).contains(&at))
            }
            false => reset.has(ACK) && back.is_answered_by(reset),
        }
    }

    /// Whether the receiver has everything up to the FIN.
    pub(crate) fn is_over(&self) -> bool {
        self.fin.is_some_and(|fin| {
            self.positions.original_end() > fin && self.acknowledged >= self.changed_end()
        })
    }

    pub(crate) fn permits_sack(&self) -> bool {
        self.sender.permits_sack
    }

    /// Segments that wait for a gap to be filled.
    pub(crate) fn waiting(&self) -> usize {
        self.early.len()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Where the stream stands, if elements hold bytes back.
    pub(crate) fn held(&self) -> Option<u64> {
        self.is_held.then(|| self.positions.original_end())
    }

    /// Where the stream stands, if bytes that were held back have left after all that the sender sent, and the receiver
    /// lacks them. The sender has its acknowledgment for them, so they are sent again from here.
    pub(crate) fn owed(&self) -> Option<u64> {
        let is_owed = self.is_flushed && self.acknowledged < self.changed_end();
        is_owed.then(|| self.positions.original_end())
    }

    pub(crate) fn changed_end(&self) -> u64 {
        self.positions.changed_end()
    }

    pub(crate) fn scale(&self) -> u8 {
        self.sender.scale
    }

    /// The longest payload that a changed segment may have.
    pub(crate) fn longest(&self) -> usize {
        self.largest.min(self.most).clamp(LEAST_SEGMENT, LONGEST_SEGMENT)
    }

    /// The sequence number of a position, in either form of the stream: both begin with the same.
    pub(crate) fn sequence(&self, position: u64) -> u32 {
        self.first.unwrap_or_default().wrapping_add(position as u32)
    }

    /// The position of a sequence number near another position; negative before the SYN.
    fn position(&self, sequence: u32, near: u64) -> i64 {
        let ahead = sequence.wrapping_sub(self.sequence(near)).cast_signed();
        near.cast_signed().saturating_add(ahead.into())
    }

    /// The acknowledgment that its receiver last sent.
    pub(crate) fn last_acknowledgment(&self) -> u32 {
        self.sequence(self.acknowledged)
    }

    pub(crate) fn last_window(&self) -> u16 {
        self.sender.window
    }

    pub(crate) fn timestamps(&self) -> Option<(u32, u32)> {
        self.sender.timestamps
    }

    /// Addresses and ports.
    pub(crate) fn ends(&self) -> Blank {
        self.sender.blank.clone()
    }

    /// Notes what a segment says about its sender.
    pub(crate) fn see(&mut self, packet: &Packet, segment: &Segment) {
        let announced = segment.announced(packet);
        if segment.has(SYN) && self.first.is_none_or(|first| first == segment.sequence) {
            self.first = Some(segment.sequence);
            self.sender.scale = announced.window_scale.unwrap_or_default();
            self.sender.segment_size = announced.segment_size.unwrap_or(LEAST_SEGMENT as u16);
            self.sender.permits_sack = announced.sack_permitted;
            self.sender.blank = ends(packet, segment).unwrap_or_default();
        }
        self.sender.window = segment.window;
        if let Some((own, _)) = announced.timestamps {
            let is_later = |last: (u32, u32)| own.wrapping_sub(last.0).cast_signed() >= 0;
            if self.sender.timestamps.is_none_or(is_later) {
                self.sender.timestamps = announced.timestamps;
            }
        }
    }

    pub(crate) fn arrive(
        &mut self,
        packet: &mut Packet,
        segment: &mut Segment,
        limits: &Limits,
    ) -> Arrival {
        let other = Arrival::Pass(Mark::default());
        let has_syn = segment.has(SYN);
        let has_fin = segment.has(FIN);
        let start = match has_syn {
            true => 1,
            false => self.position(segment.sequence, self.next),
        };
        let length = segment.len() as i64;
        let end = start + length + i64::from(has_fin);
        if end == start && !has_syn {
            return other;
        }
        let again = Arrival::Pass(Mark { kind: Kind::Again, ..Mark::default() });
        let next = self.next.cast_signed();
        if has_syn && self.next > 0 || !has_syn && end <= next {
            return again;
        }
        if self.fin.is_some_and(|fin| start + length > fin.cast_signed()) {
            return Arrival::Drop(Reason::Unexpected);
        }
        let begins = has_syn && self.next == 0;
        if start > next && !begins {
            let is_near = start - next <= limits.buffer as i64 && self.next > 0;
            return match limits.reorders && is_near {
                true => Arrival::Early,
                false => Arrival::Drop(Reason::Unexpected),
            };
        }
        let stored = self.store.len() + segment.len();
        if stored > limits.buffer || self.positions.pieces() >= MOST_PIECES {
            return Arrival::Drop(Reason::Limited);
        }
        if !begins && start < next {
            segment.trim_front(packet, (next - start) as usize);
        }
        self.next = end.cast_unsigned();
        let mut flags = 0;
        if begins || std::mem::take(&mut self.is_renewed) {
            flags |= mark::BEGINS;
        }
        if !begins && start < next {
            flags |= mark::CHANGED;
        }
        if has_fin {
            self.fin = Some((end - 1).cast_unsigned());
            flags |= mark::ENDS;
        }
        self.largest = self.largest.max(segment.len());
        Arrival::Pass(Mark { kind: Kind::Data, length: segment.len() as u16, flags })
    }

    pub(crate) fn keep(
        &mut self,
        packet: Packet,
        segment: Segment,
        limits: &Limits,
    ) -> Result<(), (Packet, Reason)> {
        let start = self.position(segment.sequence, self.next).max(0).cast_unsigned();
        let end = start + segment.len() as u64 + u64::from(segment.has(FIN));
        let room = limits.buffer.saturating_sub(self.early_bytes);
        let bytes = Early::bytes_of(&packet);
        if bytes > room || self.early.len() >= MOST_EARLY {
            return Err((packet, Reason::Limited));
        }
        let at = self.early.partition_point(|early| early.start <= start);
        if at.checked_sub(1).and_then(|at| self.early.get(at)).is_some_and(|one| one.end >= end) {
            return Err((packet, Reason::Replayed));
        }
        self.early_bytes += bytes;
        self.early.insert(at, Early { start, end, packet, segment });
        Ok(())
    }

    pub(crate) fn ready(&mut self) -> Option<(Packet, Segment)> {
        if self.early.first()?.start > self.next {
            return None;
        }
        let early = self.early.remove(0);
        self.early_bytes = self.early_bytes.saturating_sub(Early::bytes_of(&early.packet));
        Some((early.packet, early.segment))
    }

    /// Ranges that have arrived after a gap, nearest first.
    fn islands(&self) -> Vec<(u32, u32)> {
        let mut islands: Vec<(u64, u64)> = Vec::new();
        for early in &self.early {
            if let Some(last) = islands.last_mut()
                && early.start <= last.1
            {
                last.1 = last.1.max(early.end);
            } else if islands.len() < 3 {
                islands.push((early.start, early.end));
            }
        }
        islands.iter().map(|&(from, to)| (self.sequence(from), self.sequence(to))).collect()
    }

    /// Takes note of the receiver's acknowledgment in a segment of the other direction, and translates it, with its
    /// window and its selective acknowledgments. Returns whether the header was changed beyond the segment's fields.
    pub(crate) fn acknowledge(
        &mut self,
        segment: &mut Segment,
        sack: Option<&mut Packet>,
        scale: u8,
    ) -> bool {
        let end = self.changed_end();
        let position = self.position(segment.acknowledgment, self.acknowledged);
        // What was never sent cannot have arrived (RFC 5961, 5).
        let arrived = match u64::try_from(position) {
            Ok(position) if position <= end => position,
            _ => self.acknowledged,
        };
        let is_identity = self.positions.is_identity();
        let mut is_changed = false;
        if !is_identity || !self.early.is_empty() {
            let original = self.positions.acknowledged(arrived);
            if let Some(packet) = sack {
                is_changed = self.translate_sack(packet, segment, arrived);
            }
            if !is_identity {
                let scale = if segment.has(SYN) { 0 } else { scale };
                let edge = arrived + (u64::from(segment.window) << scale);
                let edge = self.positions.original_end() + edge.saturating_sub(end);
                let window = edge.saturating_sub(original) >> scale;
                segment.window = u16::try_from(window).unwrap_or(u16::MAX);
                segment.acknowledgment = self.sequence(original);
            }
        }
        if arrived > self.acknowledged {
            self.acknowledged = arrived;
            self.positions.forget(arrived);
            let kept = usize::try_from(self.stored_to.saturating_sub(arrived)).unwrap_or(0);
            let old = self.store.len().saturating_sub(kept);
            self.store.drain(..old);
            if self.store.is_empty() {
                self.store = VecDeque::new();
            } else if self.store.capacity() > (4 * self.store.len()).max(LEAST_STORE) {
                self.store.shrink_to(2 * self.store.len());
            }
        }
        is_changed
    }

    /// Translates the blocks of a SACK option, and names what waits here in their place.
    fn translate_sack(&self, packet: &mut Packet, segment: &mut Segment, arrived: u64) -> bool {
        let mut blocks = self.islands();
        let place = |sequence| self.position(sequence, arrived).max(0).cast_unsigned();
        for (left, right) in segment.sack(packet) {
            let from = self.positions.after(place(left));
            let to = self.positions.acknowledged(place(right).min(self.changed_end()));
            let block = (self.sequence(from), self.sequence(to));
            if from < to && !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        segment.set_sack(packet, &blocks)
    }

    /// Notes what a segment tells its receiver; returns whether that is news.
    pub(crate) fn tell(&mut self, segment: &Segment) -> bool {
        let told = Some((segment.acknowledgment, segment.window));
        let news = segment.has(ACK) && self.sender.told != told;
        if segment.has(ACK) {
            self.sender.told = told;
        }
        news
    }

    /// The next bytes of the stream leave. Returns whether the payload is another one than the elements left.
    pub(crate) fn pass(
        &mut self,
        segment: &mut Segment,
        packet: &mut Packet,
        mark: Mark,
        limits: &Limits,
        news: bool,
    ) -> Result<bool, Reason> {
        let (has_syn, has_fin) = (segment.has(SYN), segment.has(FIN));
        let start = self.position(segment.sequence, self.positions.original_end());
        if start != self.positions.original_end().cast_signed() {
            // A packet before this one did not come here: an element in between has dropped it.
            return Err(Reason::Unexpected);
        }
        let from = self.changed_end();
        let length = segment.len();
        if has_syn {
            self.positions.add(1, 1);
        }
        let holds = mark.has(mark::HOLDS) && !has_fin;
        self.is_held = holds;
        self.held_bytes = if holds { self.held_bytes + usize::from(mark.length) } else { 0 };
        self.is_flushed = mark.kind == Kind::Flush && (length > 0 || self.is_flushed);
        self.positions.add(mark.length.into(), length as u64);
        if has_fin {
            self.positions.add(1, 1);
        }
        self.stored_to = from + u64::from(has_syn) + length as u64;
        if !limits.reads_only {
            self.store.extend(segment.bytes(packet));
        }
        if let Some(last) = segment.bytes(packet).last() {
            self.last_byte = *last;
        }
        segment.sequence = self.sequence(from);
        let is_empty = length == 0 && !has_syn && !has_fin;
        if is_empty {
            if mark.length > 0 && !holds && self.acknowledged >= from {
                return Ok(self.probe(segment, packet));
            }
            if !news {
                return Err(Reason::Discarded);
            }
        }
        Ok(false)
    }

    /// Bytes that have passed are sent again, as far as the receiver lacks them.
    pub(crate) fn repeat(
        &mut self,
        segment: &mut Segment,
        packet: &mut Packet,
        limits: &Limits,
    ) -> Result<bool, Reason> {
        if limits.reads_only {
            return Ok(false);
        }
        if segment.has(SYN) {
            segment.set_end(packet, segment.payload);
            return Ok(true);
        }
        let near = self.positions.original_end();
        let start = self.position(segment.sequence, near).max(0).cast_unsigned();
        let end = start + segment.len() as u64;
        let store_from = self.stored_to - self.store.len() as u64;
        let from = self.positions.begin_of(start).max(self.acknowledged).max(store_from);
        let to = self.positions.end_of(end).clamp(from, self.stored_to.max(from));
        let is_last = to == self.stored_to;
        // The receiver lacks the FIN, and this brings it up to there.
        let lacks_fin = self.fin.is_some() && self.acknowledged < self.changed_end();
        let brings_fin = segment.has(FIN) && lacks_fin && is_last;
        segment.flags &= !FIN;
        if brings_fin {
            segment.flags |= FIN;
        }
        if from >= to && !brings_fin {
            return Ok(self.probe(segment, packet));
        }
        let (skipped, length) = ((from - store_from) as usize, (to - from) as usize);
        let bytes: Vec<u8> = self.store.iter().skip(skipped).take(length).copied().collect();
        segment.set_payload(packet, &bytes);
        segment.sequence = self.sequence(from);
        Ok(true)
    }

    /// Makes a segment one byte that the receiver has already, so that it answers.
    pub(crate) fn probe(&mut self, segment: &mut Segment, packet: &mut Packet) -> bool {
        segment.flags = ACK;
        segment.sequence = self.sequence(self.stored_to.wrapping_sub(1));
        segment.set_payload(packet, &[self.last_byte]);
        true
    }

    /// Gives a segment that brings no bytes its sequence number.
    pub(crate) fn place(&self, segment: &mut Segment) {
        if self.first.is_none() || segment.has(SYN) {
            return;
        }
        let end = self.positions.original_end();
        let position = self.position(segment.sequence, end);
        let changed = self.changed_end();
        let position = match u64::try_from(position) {
            Ok(position) if position < end => {
                self.positions.begin_of(position).min(changed.saturating_sub(1))
            }
            Ok(position) if segment.has(RST) => changed + (position - end),
            Ok(_) => changed,
            Err(_) => return,
        };
        segment.sequence = self.sequence(position);
    }

    /// An element has closed the connection. Returns whether the receiver does not know yet.
    pub(crate) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.is_closed, true)
    }

    /// Sets the longest payload that the receiver takes, from what it announced.
    pub(crate) fn set_most(&mut self, receiver: &Stream) {
        let options = if self.sender.timestamps.is_some() { 12 } else { 0 };
        self.most = usize::from(receiver.sender.segment_size).saturating_sub(options);
    }

    /// Has what the stream takes entered in a ledger from now on.
    pub(crate) fn enter_in(&mut self, ledger: &Arc<Ledger>) {
        if self.ledger.is_none() {
            self.ledger = Some(ledger.clone());
        }
    }

    /// Has what the stream takes entered in another ledger.
    pub(crate) fn move_to(&mut self, ledger: &Arc<Ledger>) {
        if let Some(old) = self.ledger.replace(ledger.clone()) {
            old.bytes.fetch_sub(self.entered.0, Relaxed);
            old.waiting.fetch_sub(self.entered.1, Relaxed);
        }
        self.entered = (0, 0);
        self.settle();
    }

    /// The memory that the stream takes, with what elements hold back of it.
    fn bytes(&self) -> usize {
        self.store.capacity() + self.early_bytes + self.held_bytes + self.positions.bytes()
    }

    /// Corrects the ledger.
    pub(crate) fn settle(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        let now = (self.bytes(), self.early.len());
        if now != self.entered {
            // Both wrap, and their sums are right in the end.
            ledger.bytes.fetch_add(now.0.wrapping_sub(self.entered.0), Relaxed);
            ledger.waiting.fetch_add(now.1.wrapping_sub(self.entered.1), Relaxed);
            self.entered = now;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        ledger.lost.fetch_add(self.early.len(), Relaxed);
        ledger.bytes.fetch_sub(self.entered.0, Relaxed);
        ledger.waiting.fetch_sub(self.entered.1, Relaxed);
    }
}

/// The addresses and ports of a segment.
fn ends(packet: &Packet, segment: &Segment) -> Option<Blank> {
    let data = packet.data();
    let (tcp, _) = data.get(segment.tcp..).and_then(TcpHeader::view)?;
    Some(Blank {
        link: data.get(..segment.ip)?.to_vec(),
        ends: segment.ends(packet),
        source_port: tcp.src_port.get(),
        destination_port: tcp.dst_port.get(),
        ..Blank::default()
    })
}
