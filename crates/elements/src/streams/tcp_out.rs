//! TCPOut - ends a path on which elements read and change the bytes of TCP connections
//!
//! # Synopsis
//! `TCPOut([READONLY, keyword CHECKSUM])`
//!
//! # Description
//! Makes TCP segments of what the elements after TCPIn have left of a connection's bytes, as described there. A segment
//! that has become longer than the longest that its sender sent, or than the receiver takes, is divided. Its end leaves
//! with the next segment, if that is in the same batch, so that there are few packets more than before. The identification
//! of the IPv4 packets that follow moves on. A packet whose bytes were all removed, and that says nothing else, is
//! dropped. Packets of connections that are not followed pass unchanged.
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
//! - `closed` (read): packets with which elements closed a connection, also because one had grown beyond 16 MiB.
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

use super::connection::{Leaving, Limits, Standing};
use super::mark::{self, Kind, Mark};
use super::path::{Boundary, Entrance, Exit, Hold};
use crate::flows::contexts::HALF_OPEN;
use crate::flows::table::millis;

/// The element; its manual is at the top of the file.
pub struct TcpOut {
    exit: Arc<Exit>,
    changed: PerThread<Count>,
    made: PerThread<Count>,
    closed: PerThread<Count>,
}

register!(TcpOut, "tcp_out.rs");

/// Milliseconds after the end of a connection for which its context stays.
const LINGER: u64 = 2000;

impl Element for TcpOut {
    const CLASS: Class = Class::new("TCPOut", "1/1", "h/h");
    /// Packets to send beside the current one.
    type Local = Leaving;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let reads_only = args.positional("READONLY", false);
        args.ignored::<Vec<u8>>("CHECKSUM", Sort::Keyword, "checksums are always right");
        args.complete()?;
        let exit = Exit { entrance: Default::default(), reads_only };
        Ok(Self {
            exit: exit.into(),
            changed: PerThread::default(),
            made: PerThread::default(),
            closed: PerThread::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        match init.offered_upstream::<Entrance>(0).is_empty() {
            true => Err("it needs a TCPIn upstream".into()),
            false => Ok(()),
        }
    }

    fn push(&self, cx: &mut Context, leaving: &mut Leaving, _: usize, batch: &mut Batch) {
        for mut packet in batch.drain() {
            leaving.begin(packet.aggregate());
            let result = self.depart(cx, &mut packet, leaving);
            if let Some(first) = leaving.before() {
                self.send_made(cx, first);
            }
            match result {
                Ok(()) => cx.push(0, packet),
                Err(reason) => {
                    cx.drop(packet, reason);
                }
            }
            leaving.more.drain(..).for_each(|packet| self.send_made(cx, packet));
        }
        if let Some(last) = leaving.end() {
            self.send_made(cx, last);
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<Exit>(self.exit.clone());
        offers.provide::<dyn Boundary>(self.exit.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("changed", |tcp, _| tcp.changed.total());
        handlers.read("made", |tcp, _| tcp.made.total());
        handlers.read("closed", |tcp, _| tcp.closed.total());
    }
}

impl TcpOut {
    fn send_made(&self, cx: &mut Context, packet: Packet) {
        cx.created(1);
        self.made.mine(&*cx).add(1);
        cx.push(0, packet);
    }

    fn depart(
        &self,
        cx: &mut Context,
        packet: &mut Packet,
        leaving: &mut Leaving,
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
        if mark.has(mark::CLOSES) {
            self.closed.mine(&*cx).add(1);
        }
        let limits = Limits { reads_only: self.exit.reads_only, ..entrance.limits };
        let mut connection = connection.lock();
        let result = connection.depart(direction, packet, mark, &limits, leaving);
        if (mark.has(mark::HOLDS) || mark.kind == Kind::Flush)
            && let Some(stream) = connection.streams.get_mut(direction)
            && let Some(position) = stream.held().or(stream.owed())
        {
            stream.held_since = Some(cx.now());
            let due = cx.now() + entrance.patience;
            entrance.watch(Hold { due, number, position, thread: cx.thread() });
        }
        connection.settle();
        let standing = connection.standing();
        let flows = if standing == Standing::Open { Vec::new() } else { connection.flows() };
        drop(connection);
        let now = millis(cx.now());
        for (contexts, number) in flows {
            match standing {
                Standing::HalfOpen => contexts.retire(number, now, HALF_OPEN),
                Standing::Over => contexts.retire(number, now, LINGER),
                Standing::New | Standing::Open => contexts.confirm(number, now),
            }
        }
        result
    }
}
