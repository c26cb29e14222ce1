//! TCPIn - begins a path on which elements read and change the bytes of TCP connections
//!
//! # Synopsis
//! `TCPIn(RETURNNAME [, keywords FLOWDIRECTION, OUTNAME, REORDER, BUFFER, MEMORY, HOLD, UNTRACKED, CHECKSUM, VERBOSE,
//! PROACK, RETRANSMIT_PT])`
//!
//! # Description
//! Follows the TCP connections of which it sees the SYN. Up to the TCPOut that ends the path, elements such as
//! WordMatcher see the bytes of each direction as one stream: every byte once and in order. They may change, remove and
//! insert bytes, also across segments. TCPOut makes segments of what they leave. Each direction has its own path with a
//! TCPIn, and the two name each other. A CTXManager must be upstream.
//!
//! A segment after a gap waits until the gap is filled, and what has passed before is cut off. The receiver gets the
//! changed bytes only: TCPOut stores them until they are acknowledged, and answers from there what the sender sends
//! again. Sequence numbers, acknowledgments, selective acknowledgments and windows are translated, checksums corrected.
//! The sender gets acknowledgments only of what the receiver has, and of bytes that elements hold back: these are sent
//! again with the ones behind them, or, after HOLD, by TCPIn. While a segment waits for another one, the receiver is
//! made to answer with one byte that it has already; its answer, on the way back, names the segments that wait.
//!
//! An element may hold bytes back, to see whether a word goes on in the next segment. If nothing follows for HOLD, it
//! must let them go, so that nobody waits in vain. A sender that pauses for longer in the middle of a word gets it past
//! the elements; a longer HOLD delays messages that end like the beginning of a word.
//!
//! Packets of connections whose SYN was not seen, and fragments of TCP segments, cannot be followed. They are dropped, so
//! that nothing gets past the elements unseen; resets pass, because they bring no bytes. UNTRACKED says otherwise, for a
//! box that is put among open connections: then they pass unchanged, and no element looks at them. `untracked` counts
//! them. Packets that are not TCP pass. An IPReassembler upstream makes fragments whole.
//!
//! What a host says about a connection counts when the other one agrees. A reset ends it if it stands where the receiver's
//! next byte is, a new SYN begins it anew when its receiver has answered, bytes pass after a SYN was answered, and only
//! the packets that come in at this element speak for this direction. A connection whose SYN nobody answers is forgotten
//! after 20 seconds.
//!
//! IPv4 and IPv6 are followed, IPv6 also behind extension headers; the network header must be set (MarkIPHeader,
//! MarkIP6Header).
//!
//! All packets of a direction must arrive on one thread, as receive-side scaling ensures. Elements on the path must not
//! drop packets of a stream: later ones are then dropped, too, and the connection comes to a standstill.
//!
//! # Arguments
//! - RETURNNAME: the TCPIn of the other direction. Positional or keyword, mandatory.
//! - OUTNAME: the TCPOut that ends the path. Default: the only one downstream.
//! - FLOWDIRECTION: 0 or 1; accepted without effect, because addresses tell the directions apart.
//! - REORDER: whether segments after a gap wait. If not, they are dropped, and the sender sends them again. Default true.
//! - BUFFER: bytes for each stream that are stored until they are acknowledged, and the memory of packets that wait after a
//!   gap. Further segments are dropped, and the sender sends them again later. It should not be less than the receivers' windows.
//!   Default 8388608.
//! - MEMORY: the memory of all streams of this direction, with bytes that elements hold back; while they take more, new
//!   bytes are dropped.
//!   Default 268435456.
//! - HOLD: the longest time that elements hold bytes back while nothing follows. It should exceed the time in which senders
//!   replace a lost segment. Default 500ms.
//! - UNTRACKED: DROP or PASS: what happens to TCP packets that cannot be followed. Default DROP.
//! - CHECKSUM: whether segments with a wrong TCP checksum are dropped. Without it, TCPOut may give wrong bytes a right
//!   checksum. Default true.
//! - VERBOSE: accepted without effect: handlers count what happens.
//! - PROACK, RETRANSMIT_PT: accepted without effect: TCPOut answers retransmissions.
//!
//! # Ports
//! One push input, one or two push outputs. If output 1 is connected, segments whose bytes have passed before leave by
//! it, for a TCPRetransmitter or for the TCPOut.
//!
//! # Handlers
//! - `bytes` (read): the memory that this direction's streams take.
//! - `waiting` (read): packets that wait for a gap to be filled.
//! - `untracked` (read): packets that were not followed.
//! - `again` (read): segments whose bytes had passed before.
//! - `early` (read): segments that came after a gap.
//!
//! # Drops
//! - bad checksum: the TCP checksum is wrong.
//! - limited: there is no room for more bytes of the stream, or of all.
//! - unexpected: packets that cannot be followed, if UNTRACKED is DROP; bytes far beyond any window, behind the FIN, before
//!   the SYN was answered, or without an acknowledgment; with REORDER false, bytes after a gap.
//! - received before: a segment that waits already.
//! - expired: the connection ended while the segment waited.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true) -> m1 :: CTXManager -> up :: TCPIn(down)
//!     -> WordMatcher(WORD secret, MODE MASK, ALL true) -> TCPOut -> Discard;
//! FromDump(trace.pcap, FORCE_IP true) -> m2 :: CTXManager -> down :: TCPIn(up) -> TCPOut -> Discard;
//! ```
//!
//! # See also
//! TCPOut, CTXManager, WordMatcher, HTTPIn

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millrace_core::args::{ElementRef, Kind as Sort, Word};
use millrace_core::element::Receiver;
use millrace_core::headers::tcp_flags::{ACK, RST, SYN};
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Footprint, Handlers, Init, Lock, Offers, Packet,
    PerThread, Reason, Refused, Setup, Timestamp, register,
};

use super::connection::{Arrival, Connection, Ledger, Limits};
use super::mark::{Kind, Mark};
use super::path::{Boundary, Connections, Entrance, Exit, Hold, Shared};
use super::segment::{Segment, may_be_tcp};
use crate::flows::contexts::{Contexts, HALF_OPEN};
use crate::flows::table::millis;

/// The element; its manual is at the top of the file.
pub struct TcpIn {
    entrance: Arc<Entrance>,
    back: usize,
    exit: Option<usize>,
    memory: usize,
    sums: bool,
    /// Whether packets that cannot be followed are dropped.
    is_strict: bool,
    tasks: Receiver,
    /// Streams whose bytes are due, for the threads that they are on.
    due: Lock<Vec<Hold>>,
    untracked: PerThread<Count>,
    again: PerThread<Count>,
    early: PerThread<Count>,
}

register!(TcpIn, "tcp_in.rs");

impl Element for TcpIn {
    const CLASS: Class = Class::new("TCPIn", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let back: ElementRef = args.mandatory("RETURNNAME");
        let direction: i32 = args.keyword("FLOWDIRECTION", -1);
        if !(-1..=1).contains(&direction) {
            args.error("FLOWDIRECTION", format!("FLOWDIRECTION {direction} is not valid."));
        }
        let exit: Option<ElementRef> = args.optional_keyword("OUTNAME");
        let reorders = args.keyword("REORDER", true);
        let buffer = args.in_range("BUFFER", Sort::Keyword, 1..=1u32 << 30).unwrap_or(8 << 20);
        let memory: u64 = args.keyword("MEMORY", 256 << 20);
        let patience = args.keyword("HOLD", Timestamp::from_millis(500));
        let untracked: Option<Word> = args.optional_keyword("UNTRACKED");
        let is_strict = match untracked.as_ref().map_or("DROP", Word::as_str) {
            "DROP" => true,
            "PASS" => false,
            _ => {
                args.error("UNTRACKED", "UNTRACKED must be DROP or PASS");
                true
            }
        };
        let sums = args.keyword("CHECKSUM", true);
        args.ignored::<Vec<u8>>("VERBOSE", Sort::Keyword, "handlers count what happens");
        for name in ["PROACK", "RETRANSMIT_PT"] {
            args.ignored::<Vec<u8>>(name, Sort::Keyword, "TCPOut answers retransmissions");
        }
        args.complete()?;
        let limits = Limits { buffer: buffer as usize, reorders, reads_only: false };
        let entrance = Entrance {
            connections: Default::default(),
            contexts: Default::default(),
            limits,
            ledger: Arc::default(),
            patience,
            holds: Lock::default(),
            timer: setup.timer(),
        };
        Ok(Self {
            entrance: entrance.into(),
            back: back.0,
            exit: exit.map(|exit| exit.0),
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            sums,
            is_strict,
            tasks: setup.tasks_where_reached(),
            due: Lock::default(),
            untracked: PerThread::default(),
            again: PerThread::default(),
            early: PerThread::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let contexts = Contexts::upstream(init)?;
        contexts.awaits_handshakes();
        let slot = contexts.reserve(init, false);
        // Only this element sets it.
        let _ = self.entrance.contexts.set((contexts, slot));
        let back = init.require::<Entrance>(self.back)?;
        let connections = self.entrance.connections.get_or_init(Arc::<Connections>::default);
        let theirs = back.connections.get_or_init(|| connections.clone());
        if !Arc::ptr_eq(connections, theirs) {
            return Err("the TCPIn in RETURNNAME names another one in return".into());
        }
        let exit = match self.exit {
            Some(id) => init.require::<Exit>(id)?,
            None => {
                let mut exits = init.offered_downstream::<Exit>(0).into_iter();
                match (exits.next(), exits.next()) {
                    (Some((_, exit)), None) => exit,
                    _ => {
                        let what = "Found no or more than 1 TCPOut element.";
                        return Err(format!("{what} Specify which one to use with OUTNAME").into());
                    }
                }
            }
        };
        match exit.entrance.set(self.entrance.clone()) {
            Ok(()) => Ok(()),
            Err(_) => Err("its TCPOut ends the path of another TCPIn".into()),
        }
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        let (Some((contexts, slot)), Some((before, _))) =
            (self.entrance.contexts.get(), old.entrance.contexts.get())
        else {
            return;
        };
        // The manager says what is lost.
        if contexts.take(before).is_err() {
            return;
        }
        if let Some(table) = self.entrance.connections.get() {
            contexts.for_each(*slot, |number, side| {
                let Some((connection, direction)) = side.move_to(table) else { return };
                let mut connection = connection.lock();
                connection.comes_over(direction, self.number(), &self.entrance.ledger);
                connection.is_flow(direction, contexts, number);
            });
        }
        for hold in old.entrance.holds.lock().drain(..) {
            self.entrance.watch(hold);
        }
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        self.report_lost(cx);
        for packet in batch.drain() {
            self.arrive(cx, packet);
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let now = cx.now();
        let mut ready = Vec::new();
        let mut holds = self.entrance.holds.lock();
        while let Some(hold) = holds.pop_front_if(|hold| hold.due <= now) {
            ready.push(hold);
        }
        if let Some(next) = holds.front() {
            self.entrance.timer.schedule_at(next.due);
        }
        drop(holds);
        for hold in ready {
            match self.tasks.task_on(hold.thread) {
                Some(task) if hold.thread != cx.thread() => {
                    self.due.lock().push(hold);
                    task.schedule();
                }
                _ => self.release(cx, hold),
            }
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if let Some(task) = self.tasks.task_on(cx.thread()) {
            task.rest();
        }
        let thread = cx.thread();
        let own: Vec<Hold> = self.due.lock().extract_if(.., |hold| hold.thread == thread).collect();
        for hold in &own {
            self.release(cx, *hold);
        }
        !own.is_empty()
    }

    fn held(&self) -> usize {
        let ledger = &self.entrance.ledger;
        ledger.waiting.load(Relaxed) + ledger.lost.load(Relaxed)
    }

    fn footprint(&self) -> Footprint {
        Footprint::tables(self.memory)
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<Entrance>(self.entrance.clone());
        offers.provide::<dyn Boundary>(self.entrance.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("bytes", |tcp, _| tcp.entrance.ledger.bytes.load(Relaxed));
        handlers.read("waiting", |tcp, _| tcp.entrance.ledger.waiting.load(Relaxed));
        handlers.read("untracked", |tcp, _| tcp.untracked.total());
        handlers.read("again", |tcp, _| tcp.again.total());
        handlers.read("early", |tcp, _| tcp.early.total());
    }
}

impl TcpIn {
    fn arrive(&self, cx: &mut Context, mut packet: Packet) {
        let number = packet.aggregate();
        let Some(mut segment) = Segment::of(&packet) else {
            let is_refused = self.is_strict && may_be_tcp(&packet);
            return self.bypass(cx, packet, is_refused);
        };
        if self.sums && !segment.is_intact(&packet) {
            cx.drop(packet, Reason::BadChecksum);
            return;
        }
        let Some((connection, direction)) = self.side(number, &packet, &segment) else {
            let is_refused = self.is_strict && !segment.has(RST);
            if is_refused && let Some((contexts, _)) = self.entrance.contexts.get() {
                contexts.retire(number, millis(cx.now()), HALF_OPEN);
            }
            return self.bypass(cx, packet, is_refused);
        };
        packet.truncate(segment.end);
        let limits = self.limits();
        let mut connection = connection.lock();
        let known = &mut *connection;
        if let Some(stream) = known.streams.get_mut(direction) {
            stream.enter_in(&self.entrance.ledger);
        }
        match known.arrive(direction, &mut packet, &mut segment, &limits) {
            Arrival::Drop(reason) => {
                cx.drop(packet, reason);
            }
            Arrival::Early => {
                self.early.mine(&*cx).add(1);
                match known.keep(direction, packet, segment, &limits) {
                    Ok(()) => {}
                    Err((packet, reason)) => {
                        cx.drop(packet, reason);
                    }
                }
                self.send(cx, number, known.blank(direction, Kind::Probe));
            }
            Arrival::Pass(mark) => {
                let is_again = mark.kind == Kind::Again;
                self.go_on(cx, packet, mark);
                if is_again {
                    self.again.mine(&*cx).add(1);
                    if self.is_overdue(cx, known, direction) {
                        self.send(cx, number, known.blank(direction, Kind::Flush));
                    }
                }
                while let Some((mut packet, mut segment)) = known.ready(direction) {
                    match known.arrive(direction, &mut packet, &mut segment, &limits) {
                        Arrival::Pass(mark) if mark.kind == Kind::Data => {
                            self.go_on(cx, packet, mark);
                        }
                        Arrival::Drop(reason) => {
                            cx.drop(packet, reason);
                        }
                        _ => {
                            cx.drop(packet, Reason::Replayed);
                        }
                    }
                }
            }
        }
        known.settle();
    }

    /// The limits now.
    fn limits(&self) -> Limits {
        let limits = self.entrance.limits;
        match self.entrance.ledger.bytes.load(Relaxed) < self.memory {
            true => limits,
            false => Limits { buffer: 0, ..limits },
        }
    }

    /// The connection of a flow, and its direction. A SYN begins one.
    fn side(&self, number: u32, packet: &Packet, segment: &Segment) -> Option<(Shared, usize)> {
        let (contexts, slot) = self.entrance.contexts.get()?;
        let table = self.entrance.connections.get()?;
        let begins = segment.has(SYN) && !segment.has(ACK | RST);
        let (connection, direction) = contexts.with(number, *slot, |side| {
            side.connection().or_else(|| side.join(table, segment.flow(packet)?, begins))
        })??;
        let mut known = connection.lock();
        if !known.comes_in_at(direction, self.number()) {
            return None;
        }
        known.is_flow(direction, contexts, number);
        drop(known);
        Some((connection, direction))
    }

    /// What tells this element from others.
    fn number(&self) -> usize {
        Arc::as_ptr(&self.entrance).addr()
    }

    /// A packet that is not followed.
    fn bypass(&self, cx: &mut Context, packet: Packet, is_refused: bool) {
        self.untracked.mine(&*cx).add(1);
        if is_refused {
            cx.drop(packet, Reason::Unexpected);
        } else {
            self.go_on(cx, packet, Mark::default());
        }
    }

    fn go_on(&self, cx: &mut Context, mut packet: Packet, mark: Mark) {
        mark.put(&mut packet);
        let port = usize::from(mark.kind == Kind::Again && cx.is_connected(1));
        cx.push(port, packet);
    }

    /// Sends a packet that the element made.
    fn send(&self, cx: &mut Context, number: u32, packet: Option<Packet>) {
        if let Some(mut packet) = packet {
            packet.set_aggregate(number);
            packet.set_timestamp(cx.now());
            cx.created(1);
            cx.push(0, packet);
        }
    }

    /// Asks for bytes that are held back, if no others have come since. Has them sent again if they are lost.
    fn release(&self, cx: &mut Context, hold: Hold) {
        let Some((connection, direction)) = self.entrance.connection(hold.number) else { return };
        let mut connection = connection.lock();
        if connection.is_over() {
            return;
        }
        let Some(stream) = connection.streams.get(direction) else { return };
        if stream.held().is_none() && stream.owed() == Some(hold.position) {
            self.entrance.watch(Hold { due: cx.now() + self.entrance.patience, ..hold });
            self.send(cx, hold.number, connection.blank(direction, Kind::Again));
            return;
        }
        if stream.held() != Some(hold.position) {
            return;
        }
        if stream.waiting() > 0 {
            // What follows is on its way.
            self.entrance.watch(Hold { due: cx.now() + self.entrance.patience, ..hold });
        } else {
            self.send(cx, hold.number, connection.blank(direction, Kind::Flush));
        }
    }

    /// Whether bytes have been held back for too long, and nobody has asked for them.
    fn is_overdue(&self, cx: &Context, connection: &Connection, direction: usize) -> bool {
        let stream = connection.streams.get(direction);
        stream.is_some_and(|stream| {
            let late = |since| cx.now() >= since + self.entrance.patience + self.entrance.patience;
            stream.held().is_some() && stream.held_since.is_some_and(late)
        })
    }

    /// Counts packets that waited in connections that have ended.
    fn report_lost(&self, cx: &mut Context) {
        let lost: &Ledger = &self.entrance.ledger;
        if lost.lost.load(Relaxed) > 0 {
            cx.dropped(lost.lost.swap(0, Relaxed), Reason::Expired);
        }
    }
}
