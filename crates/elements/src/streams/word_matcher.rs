//! WordMatcher - finds words in packet payloads and masks, removes or replaces them, or closes the flow
//!
//! # Synopsis
//! `WordMatcher([MODE, MSG,] WORD w1, WORD w2, ... [, keywords ALL, QUIET])`
//!
//! # Description
//! Searches packets for words: after the TCP or UDP header of a packet with an IP header, or in all of a packet without
//! one. Lengths and checksums of the IP, TCP and UDP headers are updated after a change. A word that is split across
//! two packets is not found.
//!
//! Between a TCPIn and a TCPOut, the element searches the bytes of each direction of a TCP connection instead, whatever
//! the packets are: a word is also found across segments. If several words are at one place, the first one in the list
//! counts. Bytes at the end of a packet that may be the beginning of a word wait for the next packet, but not longer
//! than TCPIn's HOLD; with `ALERT` and `CLOSE` they do not wait. `REMOVE`, and `FULL` with a text of another length,
//! change the length of the stream, so a protocol that tells the length of its content (HTTP) needs HTTPIn and HTTPOut
//! around the element. Packets that the TCPIn does not follow are not searched.
//!
//! # Arguments
//! - WORD: a word to search for, case-sensitive. Mandatory, may be repeated.
//! - MODE: what to do with a word that is found. `MASK`: replace it with stars. `REMOVE`: remove it. `REPLACE`: replace
//!   it with MSG, truncated or padded with stars to the word's length. `FULL`: replace it with all of MSG. `ALERT`:
//!   print `Attack found !`. `CLOSE`: drop the packet and all later ones of its flow, until the flow is silent for 60
//!   seconds; while 1048576 flows are closed, further ones are not, and lose only the packets with a word. Between TCPIn
//!   and TCPOut, both sides of the connection get a reset. Positional, default `MASK`.
//! - MSG: the text for `REPLACE` and `FULL`. Positional, default `<font color='red'>Blocked content !</font><br />`.
//! - ALL: whether to find all occurrences of a word in a packet, not only the first; between TCPIn and TCPOut, only the
//!   first of all words. Default false.
//! - QUIET: whether `ALERT` prints nothing. Default false.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `count`, `found` (read): the number of words found.
//!
//! # Drops
//! - filtered: in mode `CLOSE`, the packet contains a word, or its flow was closed.
//! - too big: the packet would become longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource("a secret word", LIMIT 1) -> WordMatcher(WORD secret, MODE MASK) -> Print -> Discard;
//! ```
//!
//! # See also
//! TCPIn, HTTPIn, Search, IDSMatcher

use std::sync::OnceLock;

use millrace_core::args::Word;
use millrace_core::{
    Class, Context, Count, Element, Failed, Footprint, Handlers, Init, Moment, Packet, PerPacket,
    PerThread, Reason, Refused, Setup, View, Way, register,
};

use super::tap::{Bytes, Tap, Verdict};
use crate::flows::balance::{IDLE, SWEEP};
use crate::flows::capacity::MOST_FLOWS;
use crate::flows::key::Key;
use crate::flows::table::{Fixed, Flows, millis};
use crate::flows::words::search::{Search, Words};
use crate::flows::words::{find, make_headers_right, payload, replace};

/// The element; its manual is at the top of the file.
pub struct WordMatcher {
    words: Words,
    /// On a path of TCP streams.
    tap: OnceLock<Tap<Search>>,
    mode: Mode,
    message: Vec<u8>,
    all: bool,
    quiet: bool,
    found: PerThread<Count>,
    /// The closed flows.
    closed: Flows<Key, Fixed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Mask,
    Remove,
    Replace,
    Full,
    Alert,
    Close,
}

/// The longest packet.
const LONGEST: usize = 65_535;

register!(WordMatcher, "word_matcher.rs");

impl Element for WordMatcher {
    const CLASS: Class = Class::new("WordMatcher", "1/1", "h/h");
    /// The number of words in the current packet to report.
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let words: Vec<Vec<u8>> = args.repeated("WORD");
        let mode: Option<Word> = args.optional("MODE");
        let message = args.optional("MSG");
        let all = args.keyword("ALL", false);
        let quiet = args.keyword("QUIET", false);
        let mode = match mode.as_ref().map_or("MASK", Word::as_str) {
            "MASK" => Mode::Mask,
            "REMOVE" => Mode::Remove,
            "REPLACE" => Mode::Replace,
            "FULL" => Mode::Full,
            "ALERT" => Mode::Alert,
            "CLOSE" => Mode::Close,
            _ => {
                args.error("MODE", "Mode must be MASK, REMOVE, REPLACE, ALERT, CLOSE or FULL");
                Mode::Mask
            }
        };
        args.complete()?;
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            setup.args.error((), "No words given");
            return Err(Failed);
        }
        let message =
            message.unwrap_or_else(|| b"<font color='red'>Blocked content !</font><br />".to_vec());
        let closed = Flows::new(MOST_FLOWS as usize, IDLE, SWEEP);
        Ok(Self {
            words: Words::new(words),
            tap: OnceLock::new(),
            mode,
            message,
            all,
            quiet,
            found: PerThread::default(),
            closed,
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let changes = !matches!(self.mode, Mode::Alert);
        if let Some(tap) = Tap::find(init, changes)? {
            // Only this element sets it.
            let _ = self.tap.set(tap);
        }
        Ok(())
    }

    fn footprint(&self) -> Footprint {
        match self.mode {
            Mode::Close => self.closed.footprint(),
            _ => Footprint::default(),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |matcher, _| matcher.found.total());
        handlers.read("found", |matcher, _| matcher.found.total());
    }
}

impl PerPacket for WordMatcher {
    fn treat(&self, alerts: &mut u32, packet: &mut View, at: &mut Moment) -> Way {
        *alerts = 0;
        if let Some(tap) = self.tap.get() {
            self.follow(tap, alerts, packet);
            self.found.mine(at).add(u64::from(*alerts));
            return self.way(*alerts);
        }
        let closes = self.mode == Mode::Close;
        let key = closes.then(|| Key::of(packet));
        let now = millis(at.now());
        if key.is_some_and(|key| self.closed.knows(at, key, now)) {
            return Way::drop(Reason::Filtered);
        }
        let before = packet.len();
        let mut changed = false;
        for word in self.words.iter() {
            let mut from = payload(packet);
            while let Some(place) = packet.data().get(from..).and_then(|rest| find(rest, word)) {
                self.found.mine(at).add(1);
                let place = from + place;
                let new = match self.mode {
                    Mode::Close => {
                        if let Some(key) = key {
                            self.closed.number(at, key, now, || Some(0), |_| ());
                        }
                        return Way::drop(Reason::Filtered);
                    }
                    Mode::Alert => {
                        *alerts += 1;
                        None
                    }
                    _ => {
                        let mut new = Vec::new();
                        self.replace(word, &mut new);
                        Some(new)
                    }
                };
                from = place + new.as_ref().map_or(word.len(), Vec::len);
                if let Some(new) = new {
                    if packet.len() - word.len() + new.len() > LONGEST {
                        return Way::drop(Reason::TooBig);
                    }
                    replace(packet, place, word.len(), &new);
                    changed = true;
                }
                if !self.all {
                    break;
                }
            }
        }
        if changed {
            let grown = packet.len() as i64 - before as i64;
            make_headers_right(packet, grown);
        }
        self.way(*alerts)
    }

    fn aside(
        &self,
        cx: &mut Context,
        alerts: &mut u32,
        packet: Packet,
        way: Way,
    ) -> Option<Packet> {
        if way.note().is_none() {
            return cx.send_or_drop(packet, way);
        }
        for _ in 0..*alerts {
            cx.router().chatter("Attack found !");
        }
        Some(packet)
    }
}

impl WordMatcher {
    /// The way of a packet in which this many words were found, of which to tell.
    fn way(&self, found: u32) -> Way {
        match found > 0 && self.mode == Mode::Alert && !self.quiet {
            true => Way::aside(0),
            false => Way::ON,
        }
    }

    /// Appends what stands in the place of a word.
    fn replace(&self, word: &[u8], out: &mut Vec<u8>) {
        match self.mode {
            Mode::Mask => out.resize(out.len() + word.len(), b'*'),
            Mode::Replace => {
                let end = out.len() + word.len();
                out.extend(self.message.iter().take(word.len()));
                out.resize(end, b'*');
            }
            Mode::Full => out.extend_from_slice(&self.message),
            Mode::Remove => {}
            Mode::Alert | Mode::Close => out.extend_from_slice(word),
        }
    }

    /// Searches what a packet brings to its stream, and counts the words.
    fn follow(&self, tap: &Tap<Search>, found: &mut u32, packet: &mut View) {
        let only_reads = matches!(self.mode, Mode::Alert | Mode::Close);
        packet.with_packet(|packet| {
            tap.feed(packet, |search, Bytes { bytes, ends }| {
                let mut out = Vec::new();
                let changes = search.feed(&self.words, bytes, ends, &mut out, |word, out| {
                    *found += 1;
                    self.replace(word, out);
                    self.all
                });
                if only_reads {
                    let closes = *found > 0 && self.mode == Mode::Close;
                    return Verdict { closes, ..Verdict::default() };
                }
                let replaced = changes.then_some(out);
                Verdict { replaced, holds: search.waits(), ..Verdict::default() }
            });
        });
    }
}
