//! HTTPOut - frames the content of HTTP messages again after elements have changed it
//!
//! # Synopsis
//! `HTTPOut`
//!
//! # Description
//! Stands behind HTTPIn and the elements that change content, in front of TCPOut, and tells the receiver how long the
//! content is now:
//!
//! - A message without content passes as it is, and so does a response that ends with its connection.
//! - A response of HTTP/1.1 is sent in chunks, as it comes, without `Content-Length`.
//! - A response after which the server closes the connection loses its `Content-Length`.
//! - Any other message is kept until it is complete, to count it, up to HTTPIn's BUFFER. A longer one, or one that is not
//!   complete after TCPIn's HOLD, is sent in chunks if it is of HTTP/1.1; if it is not, its connection is closed.
//!
//! The lines after the last chunk of a message (trailers) are removed.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `closed` (read): connections that were closed because a message of HTTP/1.0 was too long.
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
//! HTTPIn, TCPOut

use std::sync::{Arc, OnceLock};

use millrace_core::{
    Class, Count, Element, Failed, Handlers, Init, Moment, PerPacket, PerThread, Refused, Setup,
    View, Way, register,
};

use super::http::{Head, Length};
use super::mark::{self, Kind, Mark};
use super::path::HttpPath;
use super::tap::{Tap, Verdict};

/// The element; its manual is at the top of the file.
pub struct HttpOut {
    tap: OnceLock<(Tap<Framing>, Arc<HttpPath>)>,
    closed: PerThread<Count>,
}

register!(HttpOut, "http_out.rs");

/// How the content of the current message is sent.
#[derive(Debug, Default)]
enum Framing {
    /// As it is.
    #[default]
    Plain,
    Chunks,
    /// When it is complete.
    Whole {
        head: Head,
        content: Vec<u8>,
    },
}

impl Element for HttpOut {
    const CLASS: Class = Class::new("HTTPOut", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { tap: OnceLock::new(), closed: PerThread::default() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let path = init.offered_upstream::<HttpPath>(0).into_iter().next();
        let (Some((_, path)), Some(tap)) = (path, Tap::find(init, true)?) else {
            return Err("it must be between an HTTPIn and a TCPOut".into());
        };
        // Only this element sets it.
        let _ = self.tap.set((tap, path));
        Ok(())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("closed", |http, _| http.closed.total());
    }
}

impl PerPacket for HttpOut {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        if let Some((tap, path)) = self.tap.get() {
            packet.with_packet(|packet| {
                let verdict =
                    tap.edit(packet, |framing, mark, bytes| framing.send(mark, bytes, path.buffer));
                if verdict.is_some_and(|verdict| verdict.closes) {
                    self.closed.mine(at).add(1);
                }
            });
        }
        Way::ON
    }
}

impl Framing {
    /// What is sent of a part of the stream.
    fn send(&mut self, mark: Mark, bytes: &[u8], buffer: usize) -> Verdict {
        let ends = mark.has(mark::MESSAGE_ENDS);
        if mark.has(mark::HEADER) {
            return self.begin(bytes, ends);
        }
        match self {
            Self::Plain => Verdict::default(),
            Self::Chunks => {
                if ends {
                    *self = Self::Plain;
                }
                Verdict { around: Some(around(bytes.len(), ends)), ..Verdict::default() }
            }
            Self::Whole { head, content } => {
                content.extend_from_slice(bytes);
                if ends {
                    head.remove("Content-Length");
                    head.remove("Transfer-Encoding");
                    head.add(format!("Content-Length: {}", content.len()));
                    let out = [head.bytes(), std::mem::take(content)].concat();
                    *self = Self::Plain;
                    return Verdict { replaced: Some(out), ..Verdict::default() };
                }
                let must_go = mark.kind == Kind::Flush || content.len() > buffer;
                if must_go && head.is_1_1() {
                    in_chunks(head);
                    let out = [head.bytes(), chunk(content, false)].concat();
                    *self = Self::Chunks;
                    return Verdict { replaced: Some(out), ..Verdict::default() };
                }
                let closes = content.len() > buffer || mark.has(mark::ENDS);
                let replaced = Some(Vec::new());
                Verdict { replaced, holds: !closes, closes, ..Verdict::default() }
            }
        }
    }

    /// A head, which `ends` says has no content.
    fn begin(&mut self, bytes: &[u8], ends: bool) -> Verdict {
        *self = Self::Plain;
        let head = Head::parse(bytes);
        let length = head.as_ref().and_then(|head| head.length(false));
        let (Some(mut head), Some(length)) = (head, length) else { return Verdict::default() };
        if ends || matches!(length, Length::Rest | Length::Bytes(0)) {
            return Verdict::default();
        }
        let closes = head.has("Connection", "close");
        let keeps = head.is_1_1() || head.has("Connection", "keep-alive");
        if head.is_response() && length != Length::Chunked && (closes || !keeps) {
            head.remove("Content-Length");
        } else if head.is_response() && head.is_1_1() {
            in_chunks(&mut head);
            *self = Self::Chunks;
        } else {
            *self = Self::Whole { head, content: Vec::new() };
            return Verdict { replaced: Some(Vec::new()), holds: true, ..Verdict::default() };
        }
        Verdict { replaced: Some(head.bytes()), ..Verdict::default() }
    }
}

/// Makes a head one of a message in chunks.
fn in_chunks(head: &mut Head) {
    head.remove("Content-Length");
    head.remove("Transfer-Encoding");
    head.add("Transfer-Encoding: chunked".to_owned());
}

/// Content as a chunk, and the last chunk if the message ends.
fn chunk(bytes: &[u8], ends: bool) -> Vec<u8> {
    let (before, behind) = around(bytes.len(), ends);
    [&before[..], bytes, behind].concat()
}

/// What stands before and behind content of this length that is a chunk, with the last chunk if the message ends.
fn around(length: usize, ends: bool) -> (Vec<u8>, &'static [u8]) {
    const LAST: &[u8] = b"0\r\n\r\n";
    match (length, ends) {
        (0, true) => (Vec::new(), LAST),
        (0, false) => (Vec::new(), b""),
        (_, true) => (format!("{length:x}\r\n").into_bytes(), b"\r\n0\r\n\r\n"),
        (_, false) => (format!("{length:x}\r\n").into_bytes(), b"\r\n"),
    }
}
