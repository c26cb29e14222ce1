//! IDSMatcher - searches payloads for patterns
//!
//! # Synopsis
//! `IDSMatcher([FILE, keywords PATTERN, FORMAT, NOCASE, ENGINE, FROM, ALL, ANNO, LOG, FLOW, FLOWS, TIMEOUT])`
//!
//! # Description
//! Searches the whole payload of each packet for all patterns at once. A rule is one pattern or several, and
//! alerts when all of them occur in the payload, each in its window if it has one. Packets without an alert leave
//! by output 0, packets with one by output 1, or by output 0 if output 1 is not connected. Either way the number
//! of the first rule that alerts, in the order of the file and counted from 1, is noted in the annotation ANNO;
//! 0 means none.
//!
//! The payload is what TCP, UDP, UDP-Lite, SCTP and ICMP carry behind their headers. Of other protocols it is all that
//! is behind the IP header and extension headers of IPv6, and so it is of a fragment but the first. Padding behind an
//! IP packet is not searched. What is not IP, or has a header that is cut short or wrong, has no payload: with FROM it
//! can be searched from a header on that it has. A packet whose network header is not marked is taken for an
//! Ethernet frame, with or without VLAN tags.
//!
//! A plain file has a pattern a line. Blanks at both ends are not part of it; a line of blanks, or one that begins
//! with `#`, is nothing. Escapes are those of C (`\n`, `\x1f`, `\\`) and `\#`, `\|`; bytes in hexadecimal stand
//! between bars: `|0d 0a|`.
//!
//! A file of rules has what Snort writes: `alert tcp any any -> any any (content:"a|00|"; nocase; offset:4;
//! depth:20; content:"b"; msg:"name"; sid:1;)`. The protocol is `tcp`, `udp`, `icmp` or `ip`; addresses and ports
//! are `any`. `offset` is where the earliest match may begin, `depth` how many bytes from there it must end
//! within. Options that do not change what matches are read over; those that do, and are not named here, are
//! refused: `pcre`, `distance`, `within`, `flow`, a negated content and so on.
//!
//! The engine DFA is an Aho-Corasick automaton with all transitions: one memory access a byte, eight packets of a
//! batch side by side. It searches for the longest pattern of each rule, and where that ends the others are searched one by
//! one. A state takes 8 bytes, and one in which patterns branch 8 more for each class of bytes; the 3,640 phrases of Debian's
//! modsecurity-crs make 40,282 states, 2 MB, in 10 ms. 8,388,608 states are too many. If any pattern is searched in any
//! case, all are, and case is compared at a hit.
//! Up to 512 patterns of four bytes or more are first looked for by four of their bytes, so long as little is found.
//!
//! With FLOW each direction of a TCP connection is one text: patterns reach over packets, offsets count from its
//! first byte, behind the SYN or where it was first seen, and a rule alerts on the packet in which the last of its
//! patterns ends. A segment after a gap is searched for itself and the text goes on behind it; one that comes late
//! or again is searched for itself, and what is new of it continues the text: patterns over the edges
//! of what came out of order are not found. A direction takes about 150 bytes, and up to 64 patterns that were found
//! of rules with several. A RST or FIN ends nothing, for anybody can send one; a SYN with another number begins anew, and so does a
//! segment further behind than windows reach (2^30). Where FLOWS are known already, packets of others are searched one by one, as all packets that are
//! not TCP.
//!
//! # Arguments
//! - FILE: the file of patterns. Positional. It is read when the
//!   configuration is checked and before the router starts: a file, not a pipe or a device, of 256 MiB at most. Without a
//!   pattern it is refused: sooner it is the wrong one, or somebody is about to write it. A new version is best moved into its
//!   place (mv), so that nobody reads half of it.
//! - PATTERN: one more pattern, behind those of the file: bytes as any string of the language. Can be given often.
//! - FORMAT: `PLAIN`, `SNORT`, or `AUTO`: SNORT if the first word is `alert`. Default AUTO.
//! - NOCASE: whether plain patterns and PATTERN are found in any case. Default false.
//! - ENGINE: `DFA`; `HYPERSCAN`: the library libhs.so.5 (Hyperscan or Vectorscan), if the machine has it; `AUTO`: DFA.
//!   Hyperscan is the faster one on long payloads that are no text, DFA on text, small packets and hostile payloads.
//!   Results are the same. Default AUTO.
//! - FROM: from where on a packet is searched, to its end: `ETHERNET`, `NETWORK`, `TRANSPORT`: from that header on;
//!   `NETWORK_PAYLOAD`: from behind the IP header; `PAYLOAD`. Default PAYLOAD.
//! - ALL: whether all rules that alert are counted, and not the first alone. It takes longer. Default false.
//! - ANNO: annotation of four bytes, by name or offset. Default 44.
//! - LOG: whether a line is printed for each alert: the element, the rule's number, its sid if it has one, its message or pattern,
//!   who sends to whom, and where in the payload it begins, or `begun before` where packets before have its beginning.
//!   `ids: alert 2 [1002] login: 10.0.0.1.1234 > 10.0.0.2.80 tcp, offset 4`. Default false.
//! - FLOW: whether patterns are found across the packets of a TCP connection. Default false.
//! - FLOWS: how many directions of connections are followed at a time. Default 65536.
//! - TIMEOUT: seconds of silence after which one is forgotten, 0 for never. Default 60.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets with an alert.
//!
//! # Handlers
//! - `alerts` (read): packets with an alert.
//! - `counts` (read): a line for each rule: its number, how often it alerted, its sid or `-`, its message or pattern.
//! - `reset_counts` (write): counts from 0 again.
//! - `patterns` (read, write): the rules in force, as rules; written, those of a text take their place.
//! - `load` (write): reads the rules from this file, or FILE again, and PATTERN.
//! - `engine` (read): which engine searches.
//! - `memory` (read): bytes that it takes.
//! - `build_time` (read): seconds that it took to build.
//! - `flows` (read): with FLOW, how many directions are followed.
//!
//! New rules are built beside the old ones, by which packets are searched until then. If something is wrong with them
//! the old ones stay, and the message has file, line and column. Rules that stay, word for word, keep their counts.
//!
//! After a hot swap the rules are those of the new configuration and its file, as after a start: what handlers had put in
//! their place is gone. Rules that are the same go on counting, and streams go on.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource("GET /etc/passwd", LIMIT 1)
//!     -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
//!     -> ids :: IDSMatcher(PATTERN "/etc/passwd", PATTERN "cmd.exe", LOG true)
//!     -> Discard;
//! ids [1] -> Print(alert) -> Discard;
//! ```
//!
//! # See also
//! WordMatcher, Search, IPClassifier

use millrace_core::args::{Arg, ArgError, ArgText, Kind, Scope};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Refused, Setup, register,
};
use millrace_match::patterns::{EngineChoice, Kind as Protocol, Scratch, Text};

use super::payload::{From, locate};
use super::rules::{Compiled, Target};
use super::streams::{Streams, lowest};
use super::watch::{self, Watch};
use crate::flows::table::millis;

/// The element; its manual is at the top of the file.
pub struct IdsMatcher {
    watch: Watch,
    from: From,
    all: bool,
    streams: Option<Streams>,
}

/// What a thread needs to search.
#[derive(Default)]
pub struct Local {
    scratch: Scratch,
    /// The rules that alerted in one packet.
    rules: Vec<u32>,
}

register!(IdsMatcher, "ids_matcher.rs");

impl Element for IdsMatcher {
    const CLASS: Class = Class::new("IDSMatcher", "1/1-2", "a/ah");
    type Local = Local;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let EngineName(engine) = args.keyword("ENGINE", EngineName::default());
        let from = args.keyword("FROM", From::default());
        let all = args.keyword("ALL", false);
        let flow = args.keyword("FLOW", false);
        let flows = args.in_range("FLOWS", Kind::Keyword, 1..=1_u32 << 30);
        let timeout = args.in_range("TIMEOUT", Kind::Keyword, 0..=u32::MAX);
        if !flow {
            for name in ["FLOWS", "TIMEOUT"] {
                if args.is_given(name) {
                    args.error(name, format!("{name} has no meaning without FLOW true"));
                }
            }
        }
        if flow && from != From::default() {
            args.error("FROM", "with FLOW true only the payload is searched: FROM PAYLOAD");
        }
        if flow && engine == EngineChoice::Hyperscan {
            args.error("ENGINE", "with FLOW true the engine is DFA");
        }
        let streams = flow.then(|| {
            let timeout = u64::from(timeout.unwrap_or(60)) * 1000;
            Streams::new(flows.unwrap_or(65_536) as usize, timeout)
        });
        let watch = Watch::configure(args, Target { engine, streams: flow })?;
        args.complete()?;
        Ok(Self { watch, from, all, streams })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.watch.inspect(inspection);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.watch.initialize()
    }

    fn process(&self, cx: &mut Context, local: &mut Local, batch: &mut Batch) {
        let rules = self.watch.rules.load();
        let mut results = [0; Batch::CAPACITY];
        let results = results.get_mut(..batch.len()).unwrap_or_default();
        match (&self.streams, self.all) {
            (None, false) => self.firsts(cx, local, &rules, batch, results),
            _ => self.one_by_one(cx, local, &rules, batch, results),
        }
        for (packet, &result) in batch.iter_mut().zip(&*results) {
            self.watch.alarm.note(packet, result);
        }
        drop(rules);
        if cx.is_connected(1) && results.iter().any(|&result| result > 0) {
            let mut results = results.iter();
            batch.map_filter(|packet| match results.next() {
                Some(0) | None => Some(packet),
                Some(_) => {
                    cx.push(1, packet);
                    None
                }
            });
        }
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.watch.take(&old.watch);
        if let (Some(streams), Some(old)) = (&self.streams, &old.streams) {
            streams.take(old);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        watch::handlers(handlers, |ids: &Self| &ids.watch);
        handlers.read("engine", |ids, _| ids.watch.rules.load().matcher.engine());
        handlers.try_read("flows", |ids, call| match &ids.streams {
            Some(streams) => Ok(streams.count(millis(call.now()))),
            None => Err("there are no flows without FLOW true".into()),
        });
    }
}

impl IdsMatcher {
    /// Searches the packets of a batch side by side, for the first rule of each.
    fn firsts(
        &self,
        cx: &Context,
        local: &mut Local,
        rules: &Compiled,
        batch: &Batch,
        results: &mut [u32],
    ) {
        let mut texts = [Text { bytes: &[], kind: Protocol::Other }; Batch::CAPACITY];
        for (text, packet) in texts.iter_mut().zip(batch) {
            *text = locate(packet, self.from).text;
        }
        let texts = texts.get(..batch.len()).unwrap_or_default();
        rules.matcher.firsts(texts, results, &mut local.scratch);
        for (packet, &result) in batch.iter().zip(&*results) {
            if let Some(rule) = result.checked_sub(1) {
                self.watch.alarm.raise(cx, rules, rule, &locate(packet, self.from));
            }
        }
    }

    /// Searches packets one after the other: for all rules, or as parts of streams.
    fn one_by_one(
        &self,
        cx: &Context,
        local: &mut Local,
        rules: &Compiled,
        batch: &Batch,
        results: &mut [u32],
    ) {
        let now = millis(cx.now());
        let Local { scratch, rules: alerted } = local;
        for (packet, result) in batch.iter().zip(results) {
            let located = locate(packet, self.from);
            alerted.clear();
            let followed = match (&self.streams, &rules.streams) {
                (Some(streams), Some(matcher)) if self.all => {
                    streams.search(cx, rules.number, &located, now, |state, text| {
                        matcher.each(state, text, scratch, |rule| alerted.push(rule));
                    })
                }
                (Some(streams), Some(matcher)) => {
                    streams.search(cx, rules.number, &located, now, lowest(matcher, result))
                }
                _ => false,
            };
            if !followed && self.all {
                rules.matcher.each(located.text, scratch, |rule| alerted.push(rule));
            } else if !followed {
                *result = rules.matcher.first(located.text, scratch);
            }
            if self.all {
                // A segment may have been searched in two pieces.
                alerted.sort_unstable();
                alerted.dedup();
                *result = alerted.first().map_or(0, |rule| rule + 1);
            } else {
                alerted.extend(result.checked_sub(1));
            }
            for &rule in &*alerted {
                self.watch.alarm.raise(cx, rules, rule, &located);
            }
        }
    }
}

/// The argument ENGINE.
#[derive(Clone, Copy, Debug, Default)]
struct EngineName(EngineChoice);

impl Arg for EngineName {
    const EXPECTS: &'static str = "AUTO, DFA or HYPERSCAN";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        Ok(Self(match text.as_str().to_ascii_uppercase().as_str() {
            "AUTO" => EngineChoice::Auto,
            "DFA" => EngineChoice::Dfa,
            "HYPERSCAN" => EngineChoice::Hyperscan,
            _ => return Err(ArgError::default()),
        }))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}
