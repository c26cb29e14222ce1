//! A TCP connection that passes through elements which may change its bytes.
//!
//! There are two streams, one for each direction. TCPIn asks [`Connection::arrive`] what a segment brings: the next
//! bytes, bytes that have passed before, or bytes after a gap. TCPOut asks [`Connection::depart`] how the segment leaves
//! after the elements in between have changed its payload.
//!
//! The receiver sees the changed stream only. Its bytes are stored until it acknowledges them, and what the sender
//! sends again is answered from there. So a retransmission with other content, or with other borders, makes no
//! difference. The sender gets acknowledgments only of bytes that have arrived, in the numbers of its own stream, so no
//! packet needs to be sent again without the sender.
//!
//! Nothing is sent in the sender's direction of its own accord. Where the sender needs to hear something - its bytes
//! were removed, or a packet before them was lost - the receiver gets one byte that it has already, and answers with an
//! acknowledgment, which is translated on its way back.
//!
//! What one host says about the connection is believed when the other one agrees, for only that one knows what has
//! arrived. So a reset counts if it stands where the receiver's next byte is (RFC 5961, 3), and still no byte passes
//! unseen after it; bytes pass after a SYN was answered; and a SYN with another number begins a new connection when its
//! receiver acknowledges it. Until then it only knocks.

mod leaving;
mod stream;

use std::sync::{Arc, Weak};

use millrace_core::headers::tcp_flags::{ACK, FIN, RST, SYN};
use millrace_core::{Packet, Reason};

use super::http::Requests;
use super::mark::{self, Kind, Mark};
use super::segment::{Blank, Segment};
use crate::flows::contexts::Contexts;
pub(crate) use leaving::Leaving;
pub(crate) use stream::{Ledger, Stream};

/// Both directions of a connection.
#[derive(Default)]
pub(crate) struct Connection {
    pub(crate) streams: [Stream; 2],
    /// An element has closed it.
    is_closed: bool,
    /// One side has reset it.
    is_reset: bool,
    /// Both sides announced selective acknowledgments.
    has_sack: bool,
    /// The contexts' manager knows that both hosts take part.
    is_confirmed: bool,
    /// The stream that a SYN with another number would begin, by its direction.
    knocking: Option<(usize, Box<Stream>)>,
    /// For HTTPIn.
    pub(crate) requests: Requests,
    /// The flow of each direction.
    flows: [Option<(Weak<Contexts>, u32)>; 2],
    /// The TCPIn of each direction, as its first packet showed it.
    entrances: [Option<usize>; 2],
}

/// How a connection stands with the managers of its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not both hosts have been heard.
    HalfOpen,
    /// Both have, for the first time.
    New,
    Open,
    Over,
}

/// What happens to a segment that arrives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It goes on, with this mark.
    Pass(Mark),
    /// It brings bytes after a gap, and waits.
    Early,
    Drop(Reason),
}

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that wait for an acknowledgment, and bytes after a gap, for each stream.
    pub(crate) buffer: usize,
    /// Whether segments after a gap wait for it to be filled.
    pub(crate) reorders: bool,
    /// Whether bytes never change.
    pub(crate) reads_only: bool,
}

impl Connection {
    /// Whether nothing more is to come. One that an element has closed is not over: the hosts may not know yet.
    pub(crate) fn is_over(&self) -> bool {
        self.is_reset && !self.is_closed || self.streams.iter().all(Stream::is_over)
    }

    /// Notes the flow of a direction.
    pub(crate) fn is_flow(&mut self, direction: usize, contexts: &Arc<Contexts>, number: u32) {
        if let Some(flow) = self.flows.get_mut(direction)
            && flow.as_ref().is_none_or(|known| {
                known.1 != number || !std::ptr::eq(known.0.as_ptr(), Arc::as_ptr(contexts))
            })
        {
            *flow = Some((Arc::downgrade(contexts), number));
        }
    }

    /// Whether packets of a direction may come in here. A host cannot speak for the other one from its own side.
    pub(crate) fn comes_in_at(&mut self, direction: usize, entrance: usize) -> bool {
        let known = self.entrances.get_mut(direction);
        known.is_some_and(|known| *known.get_or_insert(entrance) == entrance)
    }

    /// Another TCPIn takes the place of the one of a direction.
    pub(crate) fn comes_over(&mut self, direction: usize, entrance: usize, ledger: &Arc<Ledger>) {
        if let Some(known) = self.entrances.get_mut(direction) {
            *known = Some(entrance);
        }
        if let Some(stream) = self.streams.get_mut(direction) {
            stream.move_to(ledger);
        }
    }

    /// How it stands with the managers of its flows.
    pub(crate) fn standing(&mut self) -> Standing {
        if self.is_over() {
            return Standing::Over;
        }
        if !self.streams.iter().all(Stream::was_heard) {
            return Standing::HalfOpen;
        }
        match std::mem::replace(&mut self.is_confirmed, true) {
            true => Standing::Open,
            false => Standing::New,
        }
    }

    /// The flows of both directions, which end when the connection does.
    pub(crate) fn flows(&self) -> Vec<(Arc<Contexts>, u32)> {
        let flows = self.flows.iter().flatten();
        flows.filter_map(|(contexts, number)| Some((contexts.upgrade()?, *number))).collect()
    }

    /// Corrects the ledgers.
    pub(crate) fn settle(&mut self) {
        self.streams.iter_mut().for_each(Stream::settle);
    }

    fn pair(&mut self, direction: usize) -> (&mut Stream, &mut Stream) {
        let [one, other] = &mut self.streams;
        if direction == 0 { (one, other) } else { (other, one) }
    }

    /// What a segment brings to the stream of its direction. May cut what has passed before from its front.
    pub(crate) fn arrive(
        &mut self,
        direction: usize,
        packet: &mut Packet,
        segment: &mut Segment,
        limits: &Limits,
    ) -> Arrival {
        let other = Arrival::Pass(Mark::default());
        if segment.has(RST) {
            return other;
        }
        if segment.has(SYN)
            && let Some(arrival) = self.knock(direction, packet, segment)
        {
            return arrival;
        }
        if self.is_closed {
            // It leaves as a reset.
            return other;
        }
        let (stream, back) = self.pair(direction);
        if segment.has(SYN) {
            stream.see(packet, segment);
            stream.set_most(back);
            back.set_most(stream);
        } else if !segment.has(ACK) {
            // Receivers drop it, too (RFC 9293, 3.10.7.4).
            return Arrival::Drop(Reason::Unexpected);
        } else if !(stream.has_begun() && back.has_begun()) {
            // An answer to a SYN that its receiver does not accept; bytes would be of no connection that is seen.
            let brings = segment.len() > 0 || segment.has(FIN);
            return if brings { Arrival::Drop(Reason::Unexpected) } else { other };
        } else {
            stream.see(packet, segment);
        }
        let arrival = stream.arrive(packet, segment, limits);
        self.has_sack = self.streams.iter().all(Stream::permits_sack);
        arrival
    }

    /// A SYN arrives. What happens to it, unless it belongs to the connection: then it goes on like any segment.
    fn knock(
        &mut self,
        direction: usize,
        packet: &mut Packet,
        segment: &mut Segment,
    ) -> Option<Arrival> {
        if segment.has(ACK)
            && let Some((_, new)) = self
                .knocking
                .take_if(|(from, new)| *from != direction && new.is_answered_by(segment))
        {
            let (flows, entrances) =
                (std::mem::take(&mut self.flows), std::mem::take(&mut self.entrances));
            *self = Self { flows, entrances, ..Self::default() };
            *self.pair(direction).1 = *new;
            return None;
        }
        let (stream, back) = self.pair(direction);
        if segment.has(ACK) && back.has_begun() && !back.is_answered_by(segment) {
            return Some(Arrival::Drop(Reason::Unexpected));
        }
        if !stream.has_begun() || stream.began_at(segment.sequence) {
            return None;
        }
        if segment.has(ACK) {
            return Some(Arrival::Drop(Reason::Unexpected));
        }
        // The receiver does not take its bytes yet, and the sender sends them again.
        let cut = segment.len() > 0 || segment.has(FIN);
        segment.set_end(packet, segment.payload);
        segment.flags &= !FIN;
        segment.write(packet);
        self.knocking = Some((direction, Box::new(Stream::begun_by(packet, segment))));
        let flags = if cut { mark::CHANGED } else { 0 };
        Some(Arrival::Pass(Mark { flags, ..Mark::default() }))
    }

    /// Whether a segment that leaves is the SYN of a connection that would come after this one.
    fn knocks(&self, direction: usize, segment: &Segment) -> bool {
        segment.has(SYN)
            && self
                .knocking
                .as_ref()
                .is_some_and(|(from, new)| *from == direction && new.began_at(segment.sequence))
    }

    /// Keeps a segment that came after a gap. Returns it if it brings nothing new or there is no room.
    pub(crate) fn keep(
        &mut self,
        direction: usize,
        packet: Packet,
        segment: Segment,
        limits: &Limits,
    ) -> Result<(), (Packet, Reason)> {
        self.pair(direction).0.keep(packet, segment, limits)
    }

    /// The next segment that waited, if the gap before it is filled.
    pub(crate) fn ready(&mut self, direction: usize) -> Option<(Packet, Segment)> {
        self.pair(direction).0.ready()
    }

    /// A packet without payload in a stream's direction: to ask for what is held back, or to make the receiver answer.
    pub(crate) fn blank(&mut self, direction: usize, kind: Kind) -> Option<Packet> {
        let (stream, back) = self.pair(direction);
        let blank = Blank {
            sequence: stream.sequence(stream.next()),
            acknowledgment: back.last_acknowledgment(),
            flags: ACK,
            window: stream.last_window(),
            timestamps: stream.timestamps(),
            ..stream.ends()
        };
        let mut packet = blank.packet()?;
        Mark { kind, ..Mark::default() }.put(&mut packet);
        Some(packet)
    }

    /// Lets a segment leave after the elements have seen it: translates its numbers. Returns whether it is sent;
    /// further packets to send are added to `leaving`.
    pub(crate) fn depart(
        &mut self,
        direction: usize,
        packet: &mut Packet,
        mark: Mark,
        limits: &Limits,
        leaving: &mut Leaving,
    ) -> Result<(), Reason> {
        let Some(mut segment) = Segment::on_path(packet) else { return Err(Reason::Truncated) };
        if self.knocks(direction, &segment) {
            segment.sum(packet);
            return Ok(());
        }
        let before = segment;
        let has_sack = self.has_sack;
        if mark.has(mark::CLOSES) {
            self.is_closed = true;
        }
        let is_closed = self.is_closed;
        let (stream, back) = self.pair(direction);
        let ends = segment.has(RST) && stream.ends_with(&segment, back);
        self.is_reset |= ends;
        let (stream, back) = self.pair(direction);
        let mut is_changed = mark.has(mark::CHANGED);
        if segment.has(ACK) && back.has_begun() {
            let sack = has_sack.then_some(&mut *packet);
            is_changed |= back.acknowledge(&mut segment, sack, stream.scale());
        }
        let news = stream.tell(&segment);
        if is_closed && !segment.has(RST) {
            close(stream, packet, segment, &mut leaving.more);
            return Ok(());
        }
        let grown = match mark.kind {
            Kind::Data | Kind::Flush => stream.pass(&mut segment, packet, mark, limits, news)?,
            Kind::Again => stream.repeat(&mut segment, packet, limits)?,
            Kind::Probe => stream.probe(&mut segment, packet),
            Kind::Other => {
                stream.place(&mut segment);
                false
            }
        };
        let longest = stream.longest();
        segment.shift_id(packet, stream.made);
        let waited = match mark.kind {
            Kind::Data | Kind::Flush => leaving.fill(longest, packet, &mut segment),
            _ => None,
        };
        if waited.is_some() || is_changed || grown || segment != before {
            segment.write(packet);
            // What is left of it is not the sender's segment any more.
            let length = if waited.is_some() { 0 } else { mark.length };
            let mark = Mark { length, ..mark };
            let made = leaving.split(longest, packet, &mut segment, mark);
            stream.made = stream.made.wrapping_add(made);
            let ends = match waited {
                Some(waited) => leaving.lead(longest, waited, packet, segment),
                None => {
                    segment.sum(packet);
                    false
                }
            };
            stream.made = stream.made.wrapping_sub(ends.into());
        }
        Ok(())
    }
}

/// Ends a connection that an element has closed. The receiver gets a byte that it has, and then a reset. Its answer to
/// the byte becomes a reset for the sender.
fn close(stream: &mut Stream, packet: &mut Packet, segment: Segment, more: &mut Vec<Packet>) {
    if stream.close()
        && let Some(mut probe) = packet.copy()
    {
        let mut asking = segment;
        stream.probe(&mut asking, &mut probe);
        asking.write(&mut probe);
        asking.sum(&mut probe);
        let mut last = std::mem::replace(packet, probe);
        reset(stream, &mut last, segment);
        more.push(last);
    } else {
        reset(stream, packet, segment);
    }
}

/// Makes a segment a reset.
fn reset(stream: &Stream, packet: &mut Packet, mut segment: Segment) {
    segment.set_end(packet, segment.payload);
    segment.flags = RST | ACK;
    segment.sequence = stream.sequence(stream.changed_end());
    segment.write(packet);
    segment.sum(packet);
}
