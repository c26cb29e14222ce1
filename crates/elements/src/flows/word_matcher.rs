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
//! # Arguments
//! - WORD: a word to search for, case-sensitive. Mandatory, may be repeated.
//! - MODE: what to do with a word that is found. `MASK`: replace it with stars. `REMOVE`: remove it. `REPLACE`: replace
//!   it with MSG, truncated or padded with stars to the word's length. `FULL`: replace it with all of MSG. `ALERT`:
//!   print `Attack found !`. `CLOSE`: drop the packet and all later ones of its flow, until the flow is silent for 60
//!   seconds. Positional, default `MASK`.
//! - MSG: the text for `REPLACE` and `FULL`. Positional, default `<font color='red'>Blocked content !</font><br />`.
//! - ALL: whether to find all occurrences of a word in a packet, not only the first. Default false.
//! - QUIET: whether `ALERT` prints nothing. Default false.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `count` (read): the number of words found.
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
//! Search, Classifier, FlowIPManager

use millrace_core::args::Word;
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

use super::balance::{IDLE, SWEEP};
use super::key::Key;
use super::table::{Fixed, Flows, millis};
use super::words::{find, make_headers_right, payload, replace};

/// The element; its manual is at the top of the file.
pub struct WordMatcher {
    words: Vec<Vec<u8>>,
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
        let closed = Flows::new(usize::MAX, IDLE, SWEEP);
        Ok(Self { words, mode, message, all, quiet, found: PerThread::default(), closed })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |matcher, _| matcher.found.total());
    }
}

impl PerPacket for WordMatcher {
    fn treat(&self, alerts: &mut u32, packet: &mut View, at: &mut Moment) -> Way {
        *alerts = 0;
        let closes = self.mode == Mode::Close;
        let key = closes.then(|| Key::of(packet));
        let now = millis(at.now());
        if key.is_some_and(|key| self.closed.knows(at, key, now)) {
            return Way::drop(Reason::Filtered);
        }
        let before = packet.len();
        let mut changed = false;
        for word in &self.words {
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
                    Mode::Remove => Some(Vec::new()),
                    Mode::Mask => Some(vec![b'*'; word.len()]),
                    Mode::Replace => {
                        let mut new = self.message.clone();
                        new.resize(word.len(), b'*');
                        Some(new)
                    }
                    Mode::Full => Some(self.message.clone()),
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
        match *alerts > 0 && !self.quiet {
            true => Way::aside(0),
            false => Way::ON,
        }
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
