//! HTTPIn - divides TCP streams into HTTP messages, for elements that change their content
//!
//! # Synopsis
//! `HTTPIn([keywords HTTP10, NOENC, BUFFER, RESIZE_METHOD, VERBOSE])`
//!
//! # Description
//! Reads HTTP/1 requests and responses on a path between TCPIn and TCPOut. Elements up to the HTTPOut see the content of
//! the messages only, without heads and without the marks of chunks, and may change its length. HTTPOut frames it again.
//! A path of requests needs its own HTTPIn, as TCPIn does, so that the responses are understood: one to HEAD has no
//! content.
//!
//! A stream that is not HTTP/1, or a message that could be understood in two ways, passes as it is from there on, like a
//! tunnel (CONNECT) or another protocol (101 Switching Protocols); elements see its bytes as those of a stream. The same
//! goes for a head of more than 65536 bytes, and for one that is not complete after TCPIn's HOLD.
//!
//! # Arguments
//! - NOENC: whether `Accept-Encoding` is removed from requests, so that servers do not compress. Default false.
//! - HTTP10: whether messages are made HTTP/1.0 ones without `Connection` and `Keep-Alive`, so that servers close the
//!   connection after each. Default false.
//! - BUFFER: bytes of content that HTTPOut may keep to learn its length, where it has to tell that in advance. Default
//!   65536.
//! - RESIZE_METHOD, VERBOSE: accepted without effect: HTTPOut frames contents again.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `messages` (read): heads that were read.
//! - `opaque` (read): packets of streams that are not understood.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true) -> m1 :: CTXManager -> up :: TCPIn(down)
//!     -> HTTPIn(NOENC true) -> HTTPOut -> TCPOut -> Discard;
//! FromDump(trace.pcap, FORCE_IP true) -> m2 :: CTXManager -> down :: TCPIn(up)
//!     -> HTTPIn -> WordMatcher(WORD secret, MODE REMOVE, ALL true) -> HTTPOut -> TCPOut -> Discard;
//! ```
//!
//! # See also
//! HTTPOut, TCPIn, WordMatcher

use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind as Sort;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Offers, Packet, PerThread,
    Refused, Setup, register,
};

use super::http::{Head, Part, Reader};
use super::mark::{self, Kind};
use super::path::{Entrance, HttpPath};
use super::tap::{Piece, Tap};

/// The element; its manual is at the top of the file.
pub struct HttpIn {
    tap: OnceLock<(Tap<Reader>, Arc<Entrance>)>,
    path: Arc<HttpPath>,
    old_version: bool,
    no_encoding: bool,
    messages: PerThread<Count>,
    opaque: PerThread<Count>,
}

register!(HttpIn, "http_in.rs");

/// Requests without a response that are remembered.
const MOST_REQUESTS: usize = 1024;

impl Element for HttpIn {
    const CLASS: Class = Class::new("HTTPIn", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let old_version = args.keyword("HTTP10", false);
        let no_encoding = args.keyword("NOENC", false);
        let buffer: u32 = args.keyword("BUFFER", 65_536);
        for name in ["RESIZE_METHOD", "VERBOSE"] {
            args.ignored::<Vec<u8>>(name, Sort::Keyword, "HTTPOut frames contents again");
        }
        args.complete()?;
        Ok(Self {
            tap: OnceLock::new(),
            path: HttpPath { buffer: buffer as usize }.into(),
            old_version,
            no_encoding,
            messages: PerThread::default(),
            opaque: PerThread::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let entrance = init.offered_upstream::<Entrance>(0).into_iter().next();
        let (Some((_, entrance)), Some(tap)) = (entrance, Tap::find(init, true)?) else {
            return Err("it must be between a TCPIn and a TCPOut".into());
        };
        // Only this element sets it.
        let _ = self.tap.set((tap, entrance));
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.divide(cx, &packet) {
                None => cx.push(0, packet),
                Some(parts) => {
                    // The packet itself stands for the first of them.
                    cx.created(parts.len() - 1);
                    parts.into_iter().for_each(|part| cx.push(0, part));
                }
            }
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<HttpPath>(self.path.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("messages", |http, _| http.messages.total());
        handlers.read("opaque", |http, _| http.opaque.total());
    }
}

impl HttpIn {
    fn divide(&self, cx: &Context, packet: &Packet) -> Option<Vec<Packet>> {
        let (tap, entrance) = self.tap.get()?;
        // Not inside: that has the flow's context locked.
        let connection = entrance.connection(packet.aggregate());
        tap.divide(packet, |reader, mark, bytes| {
            if bytes.is_empty() && mark.kind != Kind::Flush && !reader.waits() {
                return None;
            }
            let mut pieces: Vec<Piece> = Vec::new();
            let next_is_for_head = || {
                let requests =
                    connection.as_ref().map(|(known, _)| known.lock().requests.pop_front());
                requests.flatten().unwrap_or_default()
            };
            let mut used = 0;
            let mut note = |part: Part, length: usize| {
                used += length;
                let piece = match part {
                    Part::Content(bytes) => Piece { bytes, length, flags: 0 },
                    Part::Opaque(bytes) => {
                        self.opaque.mine(cx).add(1);
                        Piece { bytes, length, flags: 0 }
                    }
                    Part::Head(mut head, _) => {
                        self.messages.mine(cx).add(1);
                        if !head.is_response()
                            && let Some((known, _)) = &connection
                        {
                            let mut known = known.lock();
                            if known.requests.len() < MOST_REQUESTS {
                                known.requests.push_back(head.first_line.starts_with(b"HEAD "));
                            }
                        }
                        self.edit(&mut head);
                        Piece { bytes: head.bytes(), length, flags: mark::HEADER }
                    }
                    Part::End => match pieces.last_mut() {
                        Some(last) => {
                            last.flags |= mark::MESSAGE_ENDS;
                            return;
                        }
                        None => Piece { flags: mark::MESSAGE_ENDS, ..Piece::default() },
                    },
                };
                match pieces.last_mut() {
                    // Parts of one content that stand next to each other.
                    Some(last) if last.flags == 0 && piece.flags == 0 => {
                        last.bytes.extend_from_slice(&piece.bytes);
                        last.length += piece.length;
                    }
                    _ => pieces.push(piece),
                }
            };
            reader.read(bytes, next_is_for_head, &mut note);
            if reader.waits() && (mark.kind == Kind::Flush || mark.has(mark::ENDS)) {
                reader.give_up(0, &mut note);
            }
            // What waits belongs to no piece yet.
            let waits = bytes.len().saturating_sub(used);
            if waits > 0 || pieces.is_empty() || reader.waits() {
                let flags = if reader.waits() { mark::HOLDS } else { 0 };
                pieces.push(Piece { bytes: Vec::new(), length: waits, flags });
            }
            Some(pieces)
        })
    }

    /// Changes a head as the arguments say.
    fn edit(&self, head: &mut Head) {
        if self.no_encoding && !head.is_response() {
            head.remove("Accept-Encoding");
        }
        if self.old_version {
            head.set_version_1_0();
            head.remove("Connection");
            head.remove("Keep-Alive");
        }
    }
}
