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
//! goes for a head of more than 65536 bytes, for one that is not complete after TCPIn's HOLD, and for a response whose
//! request is not known, because it was not understood or more than 1024 requests had no response.
//!
//! A field of several lines leaves in one. Requests of HTTP/1.0 leave without `Connection` and `Keep-Alive`, so that the
//! server ends the response by closing the connection: their senders do not know chunks, and the length may change. The
//! responses to them leave as ones of HTTP/1.0.
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

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind as Sort;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Offers, Packet, PerThread,
    Refused, Setup, register,
};

use super::http::{Head, Part, Reader, Request};
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
            let parts = self.divide(cx, packet);
            // The packet itself stands for the first of them.
            cx.created(parts.len().saturating_sub(1));
            parts.into_iter().for_each(|part| cx.push(0, part));
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
    fn divide(&self, cx: &Context, packet: Packet) -> Vec<Packet> {
        let Some((tap, entrance)) = self.tap.get() else { return vec![packet] };
        // Not inside: that has the flow's context locked.
        let connection = entrance.connection(packet.aggregate());
        tap.divide(packet, |reader, mark, bytes: &[u8]| {
            if bytes.is_empty() && mark.kind != Kind::Flush && !reader.waits() {
                return None;
            }
            let mut pieces: Vec<Piece<'_>> = Vec::new();
            let request = Cell::new(Request::default());
            let next_is_for_head = || {
                let (known, _) = connection.as_ref()?;
                request.set(known.lock().requests.answer()?);
                Some(request.get().is_for_head)
            };
            let mut used = 0;
            let mut note = |part, length: usize| {
                used += length;
                let piece = match part {
                    Part::Content(bytes) => Piece { bytes: bytes.into(), length, flags: 0 },
                    Part::Opaque(bytes) => {
                        self.opaque.mine(cx).add(1);
                        if let Some((known, _)) = &connection {
                            known.lock().requests.lose();
                        }
                        Piece { bytes, length, flags: 0 }
                    }
                    Part::Head(mut head, _) => {
                        self.messages.mine(cx).add(1);
                        if head.is_response() {
                            if request.get().is_1_0 {
                                head.set_version_1_0();
                            }
                        } else if let Some((known, _)) = &connection {
                            let is_for_head = head.first_line.starts_with(b"HEAD ");
                            let is_1_0 = head.is_1_0();
                            known.lock().requests.ask(Request { is_for_head, is_1_0 });
                        }
                        self.edit(&mut head);
                        Piece { bytes: head.bytes().into(), length, flags: mark::HEADER }
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
                        last.length += piece.length;
                        if last.bytes.is_empty() {
                            last.bytes = piece.bytes;
                        } else if !piece.bytes.is_empty() {
                            last.bytes.to_mut().extend_from_slice(&piece.bytes);
                        }
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
                pieces.push(Piece { length: waits, flags, ..Piece::default() });
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
        }
        if self.old_version || !head.is_response() && head.is_1_0() {
            head.remove("Connection");
            head.remove("Keep-Alive");
        }
    }
}
