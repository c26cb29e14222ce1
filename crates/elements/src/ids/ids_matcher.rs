//! IDSMatcher - searches packet payloads for many patterns at once (intrusion detection, Snort rules)
//!
//! # Synopsis
//! `IDSMatcher([FILE, keywords PATTERN, FORMAT, NOCASE, ENGINE, FROM, ALL, ANNO, LOG, FLOW, FLOWS, TIMEOUT])`
//!
//! # Description
//! Searches the whole payload of each packet for all patterns at once. A rule has one or more patterns. It alerts when
//! all of them occur in the payload, each within its window if it has one. Packets without an alert leave by output 0.
//! Packets with an alert leave by output 1 if it is connected, otherwise by output 0. In both cases the annotation ANNO
//! holds the number of the first rule that alerted, in file order and counted from 1, or 0 for none.
//!
//! The payload is the data after the TCP, UDP, UDP-Lite, SCTP or ICMP header. For other protocols, and for fragments
//! other than the first, it is everything after the IP header and the IPv6 extension headers. Padding after an IP
//! packet is not searched. Packets that are not IP, or have a truncated or invalid header, have no payload; with FROM
//! they can be searched from an earlier header on. A packet whose network header position is not set is treated as an
//! Ethernet frame, with or without VLAN tags.
//!
//! A plain file has one pattern per line. Blanks at both ends of a line are ignored, and so are blank lines and lines
//! that start with `#`. Escapes are those of C (`\n`, `\x1f`, `\\`) and `\#`, `\|`. Hexadecimal bytes are written
//! between bars: `|0d 0a|`.
//!
//! A rule file uses Snort's syntax: `alert tcp any any -> any any (content:"a|00|"; nocase; offset:4; depth:20;
//! content:"b"; msg:"name"; sid:1;)`. The protocol is `tcp`, `udp`, `icmp` or `ip`; addresses and ports are `any`.
//! `offset` is the earliest position at which a match can begin; the match must end within `depth` bytes from there.
//! Options that do not affect matching are ignored. Options that do, and are not named here, are refused: for example
//! `pcre`, `distance`, `within`, `flow` and negated contents.
//!
//! The engine DFA is an Aho-Corasick automaton with all transitions. It makes one memory access per byte, and searches
//! eight packets of a batch in parallel. It looks for the longest pattern of each rule; where that matches, the other
//! patterns are searched one by one. A state needs 8 bytes; a state at which patterns branch needs 8 more for each byte
//! class. The 3,640 phrases of Debian's modsecurity-crs make 40,282 states, 2 MB, in 10 ms. 8,388,608 or more states
//! are refused. If any pattern ignores case, all are searched without case, and case is compared at a hit. With up to
//! 512 patterns, all of four bytes or more, a faster scan for four bytes of each comes first, as long as it finds
//! little.
//!
//! With FLOW, each direction of a TCP connection is one text. Patterns match across packets. Offsets count from the
//! first byte after the SYN, or from the first byte seen. A rule alerts on the packet in which the last of its patterns
//! ends. A segment after a gap is searched separately, and the text continues after it. A late or repeated segment is
//! searched separately, and its new bytes continue the text. Patterns across the edges of out-of-order segments are not
//! found. A direction needs about 150 bytes, and remembers up to 64 matched patterns of rules with several patterns.
//! RST and FIN do not end a text, because anybody can forge them. A SYN with a different sequence number restarts it,
//! and so does a segment further behind than any window reaches (2^30). Once FLOWS directions are tracked, packets of
//! further ones are searched individually, as are all packets that are not TCP.
//!
//! # Arguments
//! - FILE: the file of patterns. Positional. It is read when the configuration is checked or the router starts. It must
//!   be a regular file of at most 256 MiB. A file without a pattern is refused, because it is probably the wrong file
//!   or still being written. To replace it, move the new version into its place (mv), so that no half-written file is
//!   read.
//! - PATTERN: one more pattern, after those of the file, written like any string of the language. Can be repeated.
//! - FORMAT: `PLAIN`, `SNORT` or `AUTO`. AUTO means SNORT if the first line that is not blank or a comment starts with
//!   `alert`, or looks like a Snort rule with another action; otherwise PLAIN. Default AUTO.
//! - NOCASE: whether plain patterns and PATTERN ignore case. Default false.
//! - ENGINE: `DFA`, `HYPERSCAN` or `AUTO`. HYPERSCAN needs the library libhs.so.5 (Hyperscan or Vectorscan); AUTO means
//!   DFA. Hyperscan is faster on long payloads that are not text; DFA is faster on text, small packets and malicious
//!   payloads. Results are the same. Default AUTO.
//! - FROM: where the search of a packet starts; it ends at the end of the packet. `ETHERNET`, `NETWORK`, `TRANSPORT`:
//!   at that header; `NETWORK_PAYLOAD`: after the IP header; `PAYLOAD`: at the payload. Default PAYLOAD.
//! - ALL: whether to count all rules that alert, not only the first. Slower. Default false.
//! - ANNO: annotation of four bytes, by name or offset. Default 44.
//! - LOG: whether to print a line for each alert: the element; the rule's number, its sid if it has one, and its
//!   message or pattern; source and destination; and the offset in the payload, or `begun before` if the match began in
//!   an earlier packet. Example: `ids: alert 2 [1002] login: 10.0.0.1.1234 > 10.0.0.2.80 tcp, offset 4`. Default false.
//! - FLOW: whether patterns match across the packets of a TCP connection. Requires FROM PAYLOAD; cannot be combined
//!   with ENGINE HYPERSCAN. Default false.
//! - FLOWS: maximum number of directions of connections to track, with FLOW only. Default 65536.
//! - TIMEOUT: seconds without a packet after which a direction is forgotten, with FLOW only; 0 means never. Default 60.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional second push output for packets with an alert.
//!
//! # Handlers
//! - `alerts` (read): packets with an alert.
//! - `counts` (read): one line for each rule: its number, how often it alerted, its sid or `-`, its message or pattern.
//! - `reset_counts` (write): sets all counts to 0.
//! - `patterns` (read, write): the rules in force, in Snort's syntax. A write replaces them with the rules of a text.
//! - `load` (write): replaces the rules with those of the given file, or of FILE if none is given, and PATTERN.
//! - `engine` (read): the engine in use.
//! - `memory` (read): bytes of memory that the engine uses.
//! - `build_time` (read): seconds that the engine took to build.
//! - `flows` (read): with FLOW, how many directions are tracked.
//!
//! While new rules are built, packets are searched with the old ones. If the new rules have an error, the old ones
//! stay, and the message gives file, line and column. Rules that are also in the new set, word for word, keep their
//! counts.
//!
//! After a hot swap, the rules are those of the new configuration and its file, as after a start: rules set by handlers
//! are lost. Rules that are the same keep their counts, and streams continue.
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
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Inspection, Refused, Setup,
    register,
};
use millrace_match::patterns::{EngineChoice, Kind as Protocol, Scratch, Text};

use super::detection::payload::{From, locate};
use super::detection::rules::{Compiled, Target};
use super::detection::streams::{Streams, lowest};
use super::detection::watch::{self, Watch};
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
    /// The rules that alerted on one packet.
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

    fn footprint(&self) -> Footprint {
        self.streams.as_ref().map(Streams::footprint).unwrap_or_default()
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
    /// Searches the packets of a batch in parallel, for the first rule of each.
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

    /// Searches packets one by one: for all rules, or as parts of streams.
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
