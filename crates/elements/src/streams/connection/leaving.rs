//! The packets in which changed bytes leave: none is longer than what its receiver takes, and as few as possible.
//!
//! Elements often make a full segment a little longer, HTTPOut by the marks of a chunk. If its end left by itself, there
//! would be twice as many packets, which nothing downstream could merge. So the end waits for the next segment of the
//! same batch, and is filled up with its bytes.

use millrace_core::Packet;
use millrace_core::headers::tcp_flags::{FIN, PSH, RST, SYN};

use crate::streams::mark::{Kind, Mark};
use crate::streams::segment::Segment;

/// What leaves beside the packet that departs.
#[derive(Default)]
pub struct Leaving {
    /// The flow of the packet.
    number: u32,
    /// What has waited for it, and leaves before it.
    first: Option<Rest>,
    /// What leaves after it.
    pub(crate) more: Vec<Packet>,
    /// What leaves after these, or with the next packet.
    rest: Option<Rest>,
}

/// The end of what was made of a segment.
pub(super) struct Rest {
    number: u32,
    packet: Packet,
    segment: Segment,
}

impl Rest {
    fn finish(self) -> Packet {
        let Self { mut packet, segment, .. } = self;
        segment.write(&mut packet);
        segment.sum(&mut packet);
        packet
    }
}

impl Leaving {
    /// The next packet departs, of the flow with this number.
    pub(crate) fn begin(&mut self, number: u32) {
        self.number = number;
        self.first = self.rest.take();
    }

    /// A packet that leaves before the current one.
    pub(crate) fn before(&mut self) -> Option<Packet> {
        self.first.take().map(Rest::finish)
    }

    /// The packet that leaves when no other one follows.
    pub(crate) fn end(&mut self) -> Option<Packet> {
        self.rest.take().map(Rest::finish)
    }

    /// Moves bytes of a segment to what waits, up to the longest payload, if it is the next one. Returns what has waited;
    /// [`lead`](Self::lead) lets it leave.
    pub(super) fn fill(
        &mut self,
        longest: usize,
        packet: &mut Packet,
        segment: &mut Segment,
    ) -> Option<Rest> {
        let number = self.number;
        let mut rest = self.first.take_if(|rest| {
            let end = rest.segment.sequence.wrapping_add(rest.segment.len() as u32);
            rest.number == number && end == segment.sequence && !segment.has(SYN | RST)
        })?;
        let room = longest.saturating_sub(rest.segment.len()).min(segment.len());
        let bytes = segment.bytes(packet).get(..room).unwrap_or_default();
        rest.segment.push_back(&mut rest.packet, bytes);
        segment.trim_front(packet, room);
        Some(rest)
    }

    /// Lets what has waited leave in the place of the packet. The packet leaves after it, or waits in its turn; if nothing
    /// of its segment is left, it ends. Returns whether it does.
    pub(super) fn lead(
        &mut self,
        longest: usize,
        rest: Rest,
        packet: &mut Packet,
        segment: Segment,
    ) -> bool {
        let Rest { packet: mut first, segment: mut part, .. } = rest;
        let ends = segment.len() == 0;
        let last = segment.flags & (FIN | PSH);
        if ends {
            part.flags |= last;
        }
        (part.acknowledgment, part.window) = (segment.acknowledgment, segment.window);
        part.write(&mut first);
        part.sum(&mut first);
        let packet = std::mem::replace(packet, first);
        if ends {
            return true;
        }
        let rest = Rest { number: self.number, packet, segment };
        let is_last = self.more.is_empty() && self.rest.is_none();
        match is_last && last == 0 && segment.len() < longest {
            true => self.rest = Some(rest),
            false => self.more.insert(0, rest.finish()),
        }
        false
    }

    /// Divides a segment that has become longer than what the receiver takes, the path, or an IP packet. Returns the
    /// number of packets that were made.
    pub(super) fn split(
        &mut self,
        longest: usize,
        packet: &mut Packet,
        segment: &mut Segment,
        mark: Mark,
    ) -> u16 {
        let length = segment.len();
        let is_as_before = length <= usize::from(mark.length) && mark.kind == Kind::Data;
        if !segment.is_long() && (length <= longest || is_as_before) {
            return 0;
        }
        let bytes = segment.bytes(packet).get(longest..).unwrap_or_default().to_vec();
        let last = segment.flags & (FIN | PSH);
        let flags = segment.flags & !SYN;
        let first = segment.sequence.wrapping_add(segment.has(SYN).into());
        segment.set_end(packet, segment.payload + length.min(longest));
        segment.flags &= !last;
        segment.write(packet);
        let mut made = 0_u16;
        for chunk in bytes.chunks(longest) {
            // What is not sent for lack of memory is stored, and is sent again.
            let Some(mut another) = packet.copy() else { break };
            made = made.wrapping_add(1);
            let at = usize::from(made) * longest;
            let is_last = at + chunk.len() == length;
            let mut part = *segment;
            part.set_payload(&mut another, chunk);
            part.shift_id(&mut another, made);
            part.sequence = first.wrapping_add(at as u32);
            part.flags = if is_last { flags } else { flags & !last };
            let rest = Rest { number: self.number, packet: another, segment: part };
            match is_last && last == 0 && chunk.len() < longest {
                true => self.rest = Some(rest),
                false => self.more.push(rest.finish()),
            }
        }
        made
    }
}
