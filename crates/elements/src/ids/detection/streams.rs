//! TCP streams, one per direction of a connection: the state of the search, and how far it has got.

use millrace_core::headers::{TcpHeader, tcp_flags};
use millrace_core::{Footprint, InRound};
use millrace_match::patterns::{Kind, StreamMatcher, StreamState, Text};

use super::payload::Located;
use crate::flows::key::WideKey;
use crate::flows::table::{Changing, Flows};

/// The streams that are known.
pub(crate) struct Streams(Flows<WideKey, Changing<Stream>>);

/// One direction of a connection.
struct Stream {
    /// The rules that its state belongs to.
    rules: u64,
    state: StreamState,
    /// The next expected sequence number.
    next: u32,
}

/// No segment of a connection is further behind than this (RFC 7323, 2.3). One that is belongs to a new connection,
/// whose SYN was not seen.
const LARGEST_WINDOW: i32 = 1 << 30;

/// Milliseconds between checks for streams that have timed out.
const INTERVAL: u64 = 1000;

impl Streams {
    /// Up to `capacity` streams, each forgotten after `timeout` milliseconds without a packet; 0 means never.
    pub(crate) fn new(capacity: usize, timeout: u64) -> Self {
        Self(Flows::new(capacity, timeout, INTERVAL))
    }

    /// Searches a segment as part of its stream: calls `search` for one or two pieces, with the state before them.
    /// Returns false if the segment has no stream: it is not a complete TCP segment, or the maximum number of streams
    /// is reached.
    pub(crate) fn search(
        &self,
        at: &impl InRound,
        rules: u64,
        packet: &Located<'_>,
        now: u64,
        mut search: impl FnMut(&mut StreamState, Text<'_>),
    ) -> bool {
        let Some((key, header)) = segment(packet) else { return false };
        let starts = header.flags & tcp_flags::SYN != 0;
        if packet.text.bytes.is_empty() && !starts {
            return true;
        }
        // A SYN takes up one sequence number.
        let first = header.sequence.get().wrapping_add(starts.into());
        let new = || Some(Stream { rules, state: StreamState::default(), next: first });
        let act = |stream: &mut Stream| {
            let ahead = first.wrapping_sub(stream.next).cast_signed();
            if starts && stream.start() != first || ahead < -LARGEST_WINDOW {
                *stream = Stream { rules, state: StreamState::default(), next: first };
            }
            stream.renew(rules);
            stream.search(first, packet.text, &mut search);
        };
        self.0.with(at, key, now, new, |_| (), act).is_some()
    }

    /// What the streams take when there are as many as there may be.
    pub(crate) fn footprint(&self) -> Footprint {
        self.0.footprint()
    }

    /// The number of streams.
    pub(crate) fn count(&self, now: u64) -> usize {
        self.0.count(now, |_| ())
    }

    /// Takes over the streams of the old one.
    pub(crate) fn take(&self, old: &Self) {
        self.0.take(&old.0);
    }
}

/// The key of a packet's stream and its TCP header, if that is complete.
fn segment<'a>(packet: &Located<'a>) -> Option<(WideKey, &'a TcpHeader)> {
    if packet.text.kind != Kind::Tcp {
        return None;
    }
    let (header, ..) = TcpHeader::split(packet.transport)?;
    let (from, to) = (header.src_port.get(), header.dst_port.get());
    let (source, destination) = packet.ends()?;
    let (source, destination) = (source.bits(), destination.bits());
    let ports = u32::from(from) << 16 | u32::from(to);
    Some((WideKey { source, destination, ports, space: 0 }, header))
}

impl Stream {
    /// The sequence number of the first byte.
    fn start(&self) -> u32 {
        self.next.wrapping_sub(self.state.position() as u32)
    }

    /// Restarts the search at the current position if the state belongs to other rules.
    fn renew(&mut self, rules: u64) {
        if self.rules != rules {
            let position = self.state.position();
            self.rules = rules;
            self.state = StreamState::default();
            self.state.resume_at(position);
        }
    }

    fn search(
        &mut self,
        first: u32,
        text: Text<'_>,
        search: &mut impl FnMut(&mut StreamState, Text<'_>),
    ) {
        let length = text.bytes.len() as u32;
        let ahead = first.wrapping_sub(self.next).cast_signed();
        let position = self.state.position();
        if ahead < 0 {
            // A retransmission, a late segment, or another one with the same numbers: it is searched separately, at
            // its position, and its new bytes continue the stream.
            let place = self.state.place();
            let behind = ahead.unsigned_abs();
            self.state.resume_at(position.saturating_sub(behind.into()));
            search(&mut self.state, text);
            self.state.return_to(place);
            if let Some(fresh) = text.bytes.get(behind as usize..).filter(|new| !new.is_empty()) {
                search(&mut self.state, Text { bytes: fresh, ..text });
                self.next = first.wrapping_add(length);
            }
            return;
        }
        if ahead > 0 {
            self.state.resume_at(position.saturating_add(ahead.unsigned_abs().into()));
        }
        search(&mut self.state, text);
        self.next = first.wrapping_add(length);
    }
}

/// A search function for [`Streams::search`] that finds the lowest rule.
pub(crate) fn lowest<'a>(
    matcher: &'a StreamMatcher,
    result: &'a mut u32,
) -> impl FnMut(&mut StreamState, Text<'_>) + 'a {
    move |state, text| {
        let found = matcher.first(state, text);
        // 0 means no rule; it wraps to the highest number.
        *result = (*result).wrapping_sub(1).min(found.wrapping_sub(1)).wrapping_add(1);
    }
}
