//! TCPOut - ends a path on which elements read and change the bytes of TCP connections
//!
//! # Synopsis
//! `TCPOut([READONLY, keyword CHECKSUM])`
//!
//! # Description
//! Makes TCP segments of what the elements after TCPIn have left of a connection's bytes, as described there. A segment
//! that has become longer than the longest that its sender sent, or than the receiver takes, is divided. A packet whose
//! bytes were all removed, and that says nothing else, is dropped. Packets of connections that are not followed pass
//! unchanged.
//!
//! A segment of which nothing changed leaves as it came, with its checksum.
//!
//! # Arguments
//! - READONLY: whether elements only read. Then nothing is stored, and what the sender sends again passes as it is, even
//!   if it differs from what the elements have seen. Elements that change bytes are refused. Default false.
//! - CHECKSUM: accepted without effect: checksums are always right.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `changed` (read): segments whose bytes elements changed.
//! - `made` (read): segments that were made because others had become too long.
//!
//! # Drops
//! - discarded: all bytes of the packet were removed or are held back, and it says nothing else.
//! - unexpected: an element between TCPIn and TCPOut has dropped an earlier packet of the stream.
//! - expired: the flow ended while the packet was on its way.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true) -> m1 :: CTXManager -> up :: TCPIn(down)
//!     -> Print(SEEN) -> TCPOut(READONLY true) -> Discard;
//! FromDump(trace.pcap, FORCE_IP true) -> m2 :: CTXManager -> down :: TCPIn(up) -> TCPOut -> Discard;
//! ```
//!
//! # See also
//! TCPIn, IPOut

use std::sync::Arc;

use millrace_core::args::Kind as Sort;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Offers, Packet, PerThread,
    Reason, Refused, Setup, register,
};

use super::connection::Limits;
use super::mark::{self, Kind, Mark};
use super::path::{Boundary, Entrance, Exit, Hold};
use crate::flows::table::millis;

/// The element; its manual is at the top of the file.
pub struct TcpOut {
    exit: Arc<Exit>,
    changed: PerThread<Count>,
    made: PerThread<Count>,
}

register!(TcpOut, "tcp_out.rs");

/// Milliseconds after the end of a connection for which its context stays.
const LINGER: u64 = 2000;

impl Element for TcpOut {
    const CLASS: Class = Class::new("TCPOut", "1/1", "h/h");
    /// Packets to send after the current one.
    type Local = Vec<Packet>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let reads_only = args.positional("READONLY", false);
        args.ignored::<Vec<u8>>("CHECKSUM", Sort::Keyword, "checksums are always right");
        args.complete()?;
        let exit = Exit { entrance: Default::default(), reads_only };
        Ok(Self { exit: exit.into(), changed: PerThread::default(), made: PerThread::default() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        match init.offered_upstream::<Entrance>(0).is_empty() {
            true => Err("it needs a TCPIn upstream".into()),
            false => Ok(()),
        }
    }

    fn push(&self, cx: &mut Context, more: &mut Vec<Packet>, _: usize, batch: &mut Batch) {
        for mut packet in batch.drain() {
            match self.depart(cx, &mut packet, more) {
                Ok(()) => cx.push(0, packet),
                Err(reason) => {
                    cx.drop(packet, reason);
                }
            }
            if !more.is_empty() {
                cx.created(more.len());
                self.made.mine(&*cx).add(more.len() as u64);
                more.drain(..).for_each(|packet| cx.push(0, packet));
            }
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<Exit>(self.exit.clone());
        offers.provide::<dyn Boundary>(self.exit.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("changed", |tcp, _| tcp.changed.total());
        handlers.read("made", |tcp, _| tcp.made.total());
    }
}

impl TcpOut {
    fn depart(
        &self,
        cx: &mut Context,
        packet: &mut Packet,
        more: &mut Vec<Packet>,
    ) -> Result<(), Reason> {
        let mark = Mark::of(packet);
        let number = packet.aggregate();
        let entrance = self.exit.entrance.get().filter(|_| number != 0);
        let Some((entrance, (connection, direction))) =
            entrance.and_then(|entrance| Some((entrance, entrance.connection(number)?)))
        else {
            return match mark.kind {
                Kind::Other => Ok(()),
                _ => Err(Reason::Expired),
            };
        };
        if mark.has(mark::CHANGED) {
            self.changed.mine(&*cx).add(1);
        }
        let limits = Limits { reads_only: self.exit.reads_only, ..entrance.limits };
        let mut connection = connection.lock();
        let result = connection.depart(direction, packet, mark, &limits, more);
        if (mark.has(mark::HOLDS) || mark.kind == Kind::Flush)
            && let Some(stream) = connection.streams.get_mut(direction)
            && let Some(position) = stream.held().or(stream.owed())
        {
            stream.held_since = Some(cx.now());
            let due = cx.now() + entrance.patience;
            entrance.watch(Hold { due, number, position, thread: cx.thread() });
        }
        connection.settle();
        let flows = if connection.is_over() { connection.flows() } else { Vec::new() };
        drop(connection);
        for (contexts, number) in flows {
            contexts.retire(number, millis(cx.now()), LINGER);
        }
        result
    }
}
