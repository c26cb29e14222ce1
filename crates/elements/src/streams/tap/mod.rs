//! How an element reads and changes the bytes of streams.
//!
//! An element on a path between TCPIn and TCPOut has a [`Tap`]. It calls [`Tap::feed`] with each packet, and gets the
//! bytes that the packet brings, each of the stream once and in order, and its own state for the stream. It returns the
//! bytes that go on. It may hold bytes back to see what follows, until [`Bytes::ends`].

use std::borrow::Cow;
use std::sync::Arc;

use millrace_core::headers::tcp_flags;
use millrace_core::{Init, Packet, Refused};

use super::mark::{self, Kind, Mark};
use super::path::{Boundary, Exit};
use super::segment::Segment;
use crate::flows::contexts::{Contexts, Slot};

/// An element's access to the streams of a path.
pub(crate) struct Tap<T> {
    contexts: Arc<Contexts>,
    slot: Slot<T>,
}

/// The bytes that a packet brings.
pub(crate) struct Bytes<'p> {
    pub(crate) bytes: &'p [u8],
    /// Nothing may be held back any more: the stream or a message in it ends, or the receiver must not wait longer.
    pub(crate) ends: bool,
}

/// What becomes of the bytes that a packet brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The payload from now on, if it changes.
    pub(crate) replaced: Option<Vec<u8>>,
    /// What is put before and behind the payload.
    pub(crate) around: Option<(Vec<u8>, &'static [u8])>,
    /// The element holds bytes back.
    pub(crate) holds: bool,
    /// The connection is to be closed.
    pub(crate) closes: bool,
}

/// The longest payload that elements may make of a segment.
const MOST_GROWN: usize = 16 << 20;

impl<T: Default + Send + 'static> Tap<T> {
    /// A tap, if the element is on a path. `changes` says whether it changes bytes.
    ///
    /// # Errors
    /// The path does not allow changes, or there is no manager.
    pub(crate) fn find(init: &Init<'_>, changes: bool) -> Result<Option<Self>, Refused> {
        let ends = init.offered_downstream::<Exit>(0);
        // What comes out of a TCPOut is no stream any more.
        let begins = init.offered_upstream::<dyn Boundary>(0);
        let is_on_path = !begins.is_empty() && begins.iter().all(|(_, one)| one.begins());
        if !is_on_path || ends.is_empty() {
            return Ok(None);
        }
        if changes && let Some((id, _)) = ends.iter().find(|(_, exit)| exit.reads_only) {
            let exit = init.router().name_of(*id);
            return Err(format!("it changes bytes, but ‘{exit}’ is READONLY").into());
        }
        let contexts = Contexts::upstream(init)?;
        Ok(Some(Self { slot: contexts.reserve(init, true), contexts }))
    }

    /// Lets `act` see the bytes that a packet brings to its stream, with the element's state. Returns what it decided, or
    /// `None` when the packet brings nothing for this element: heads of messages are for HTTPOut alone.
    pub(crate) fn feed(
        &self,
        packet: &mut Packet,
        act: impl FnOnce(&mut T, Bytes<'_>) -> Verdict,
    ) -> Option<Verdict> {
        let mark = Mark::of(packet);
        if mark.has(mark::HEADER) {
            return None;
        }
        let flags = mark::ENDS | mark::MESSAGE_ENDS;
        let ends = mark.flags & flags != 0 || mark.kind == Kind::Flush;
        self.edit(packet, |state, _, bytes| act(state, Bytes { bytes, ends }))
    }

    /// Like [`feed`](Self::feed), for all bytes, with the packet's mark.
    pub(crate) fn edit(
        &self,
        packet: &mut Packet,
        act: impl FnOnce(&mut T, Mark, &[u8]) -> Verdict,
    ) -> Option<Verdict> {
        let mut mark = Mark::of(packet);
        let mut segment = Self::segment(packet, mark)?;
        let bytes = segment.bytes(packet);
        let verdict = self.state(packet, mark, |state| act(state, mark, bytes))?;
        match &verdict.replaced {
            // No byte is lost: the connection ends.
            Some(new) if new.len() > MOST_GROWN => mark.flags |= mark::CLOSES,
            Some(new) => {
                segment.set_payload(packet, new);
                mark.flags |= mark::CHANGED;
            }
            None => {}
        }
        if let Some((before, behind)) = &verdict.around {
            segment.frame(packet, before, behind);
            mark.flags |= mark::CHANGED;
        }
        if verdict.holds {
            mark.flags |= mark::HOLDS;
        }
        if verdict.closes {
            mark.flags |= mark::CLOSES;
        }
        mark.put(packet);
        Some(verdict)
    }

    /// Lets `act` divide the bytes that a packet brings into pieces, and makes a packet of each. The lengths of the
    /// pieces add up to what the packet brought. If `act` returns `None`, the packet stays as it is.
    pub(crate) fn divide(
        &self,
        mut packet: Packet,
        act: impl for<'p> FnOnce(&mut T, Mark, &'p [u8]) -> Option<Vec<Piece<'p>>>,
    ) -> Vec<Packet> {
        let mark = Mark::of(&packet);
        let Some(mut segment) = Self::segment(&packet, mark) else { return vec![packet] };
        let bytes = segment.bytes(&packet);
        let pieces = self.state(&packet, mark, |state| act(state, mark, bytes)).flatten();
        let pieces = match pieces.unwrap_or_default() {
            same if same.is_empty() => return vec![packet],
            same if same.len() == 1 && same.iter().all(|one| one.is_all_of(bytes)) => {
                Err(same.iter().fold(mark.flags, |flags, one| flags | one.flags))
            }
            // The packet is about to change.
            pieces => Ok(pieces.into_iter().map(Piece::into_owned).collect::<Vec<_>>()),
        };
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(flags) => {
                Mark { flags, ..mark }.put(&mut packet);
                return vec![packet];
            }
        };
        // Copies are made of the headers alone.
        segment.set_end(&mut packet, segment.payload);
        let last = pieces.len() - 1;
        let mut packets = Vec::with_capacity(pieces.len());
        let mut sequence = segment.sequence;
        for (n, piece) in pieces.iter().enumerate() {
            let Some(mut copy) = packet.copy() else { break };
            let mut part = segment;
            let mut own = mark;
            own.length = u16::try_from(piece.length).unwrap_or(u16::MAX);
            own.flags |= piece.flags | mark::CHANGED;
            part.sequence = sequence;
            sequence = sequence.wrapping_add(own.length.into());
            if n > 0 {
                part.flags &= !tcp_flags::SYN;
                own.flags &= !mark::BEGINS;
            } else if part.has(tcp_flags::SYN) {
                sequence = sequence.wrapping_add(1);
            }
            if n < last {
                part.flags &= !(tcp_flags::FIN | tcp_flags::PSH);
                own.flags &= !mark::ENDS;
            }
            part.set_payload(&mut copy, &piece.bytes);
            part.write(&mut copy);
            own.put(&mut copy);
            packets.push(copy);
        }
        if packets.len() < pieces.len() {
            // There is no memory for the others, and what they bring must not be missing in between.
            Mark { flags: mark.flags | mark::CLOSES, ..mark }.put(&mut packet);
            segment.sequence = sequence;
            segment.write(&mut packet);
            packets.push(packet);
        }
        packets
    }

    /// The segment of a packet that brings bytes.
    fn segment(packet: &Packet, mark: Mark) -> Option<Segment> {
        let brings = matches!(mark.kind, Kind::Data | Kind::Flush);
        Segment::on_path(packet).filter(|_| brings && !mark.has(mark::CLOSES))
    }

    /// What `act` makes of the element's state for the stream of a packet.
    fn state<R>(&self, packet: &Packet, mark: Mark, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.contexts.with(packet.aggregate(), self.slot, |state| {
            if mark.has(mark::BEGINS) {
                *state = T::default();
            }
            act(state)
        })
    }
}

/// A part of the bytes that a packet brought.
#[derive(Debug, Default)]
pub(crate) struct Piece<'p> {
    pub(crate) bytes: Cow<'p, [u8]>,
    /// How many bytes of the packet it stands for.
    pub(crate) length: usize,
    /// Flags of its mark.
    pub(crate) flags: u8,
}

impl Piece<'_> {
    /// Whether it is all that the packet brought, as it is.
    fn is_all_of(&self, bytes: &[u8]) -> bool {
        let is_borrowed = matches!(self.bytes, Cow::Borrowed(_));
        is_borrowed && self.bytes.len() == bytes.len() && self.length == bytes.len()
    }

    fn into_owned(self) -> Piece<'static> {
        Piece { bytes: self.bytes.into_owned().into(), length: self.length, flags: self.flags }
    }
}
