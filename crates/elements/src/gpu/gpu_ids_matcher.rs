//! GPUIDSMatcher - searches packet payloads for IDS patterns on the GPU
//!
//! # Synopsis
//! `GPUIDSMatcher([FILE, keywords PATTERN, FORMAT, NOCASE, FROM, ANNO, LOG, CHK_ANNO, LANES])`
//!
//! # Description
//! Goes between HostToDeviceMemcpy and DeviceToHostMemcpy. Does the same as IDSMatcher, for a whole batch at once:
//! searches the payload of each packet for all patterns, and writes the number of the first rule that alerts into the
//! annotation ANNO, counted from 1; 0 means none. Files and patterns are those of IDSMatcher.
//!
//! It decides between two outputs: 1 for packets with an alert, 0 for others. When both are connected, to other GPU
//! elements, packets leave by them. When one is connected, all packets leave by it, and a Dispatcher after the
//! Debatcher separates them: `Dispatcher(ids.1, -)`.
//!
//! The payload of each packet is copied to the device, and 128 bytes from its network header on, which determine the
//! protocol. Device threads that share a packet each search a part of it, and as much before that part as a pattern may
//! span.
//!
//! When several matchers in a section write the same annotation, each writes what it finds; one that finds nothing does
//! not overwrite the result of an earlier one.
//!
//! # Arguments
//! - FILE: the file of patterns. Positional. It is read when the configuration is checked and before the router starts.
//!   It must be a regular file, not a pipe or a device, of 256 MiB at most. A file without patterns is refused: it is
//!   more likely the wrong file, or one that is still being written. To replace it, move a new version into its place
//!   (mv), so that no reader sees half of it.
//! - PATTERN: one more pattern, after those of the file. May be repeated.
//! - FORMAT: `PLAIN`, `SNORT`, or `AUTO`. Default AUTO.
//! - NOCASE: whether plain patterns and PATTERN ignore case. Default false.
//! - FROM: where the search of a packet starts: `PAYLOAD`, `TRANSPORT`, `NETWORK_PAYLOAD`, `NETWORK`, `ETHERNET`.
//!   Default PAYLOAD.
//! - ANNO: a four-byte annotation, by name or offset. Default 44.
//! - LOG: whether to print a line for each alert:
//!   `ids: alert 2 [1002] login: 10.0.0.1.1234 > 10.0.0.2.80 tcp, offset 4`, with the rule's number, its sid if it has
//!   one, its message or pattern, and its offset in the payload. Default false.
//! - CHK_ANNO: process only packets for which this predicate holds; others pass: `element.output`, an earlier GPU
//!   element that chose this output.
//! - LANES: device threads that share a packet, a power of two up to 32. Default 8; `bench gpu-calibrate` measures the
//!   best value. measures which is the best.
//!
//! # Ports
//! One push input, one or two push outputs.
//!
//! # Handlers
//! - `alerts` (read): packets with an alert.
//! - `counts` (read): one line per rule: its number, how often it alerted, its sid or `-`, its message or pattern.
//! - `reset_counts` (write): resets the counts to 0.
//! - `patterns` (read, write): the rules in force, in rule format; writing a text replaces them by the rules in it.
//! - `load` (write): reads the rules from this file, or FILE again, and PATTERN.
//! - `memory` (read): bytes of the rules' compiled form for the CPU.
//! - `image_bytes` (read): bytes of the rules on the device.
//! - `build_time` (read): seconds that building the rules took.
//!
//! New rules are built beside the old ones. A batch in progress is searched by the rules that it began with, and its
//! alerts name and count those. If new rules have an error, the old ones stay in force, and the message has file, line
//! and column. Rules whose text does not change keep their counts.
//!
//! After a hot swap the rules are those of the new configuration and its file, as after a start: changes made through
//! handlers are lost. Rules that are the same keep their counts.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource("GET /etc/passwd", LIMIT 1)
//!     -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> ids :: GPUIDSMatcher(PATTERN "/etc/passwd", PATTERN "cmd.exe", LOG true)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(ids.1, -);
//! d [0] -> Print(alert) -> Discard;
//! d [1] -> Discard;
//! ```
//!
//! # See also
//! IDSMatcher, Dispatcher, GPUSDNClassifier

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Batch, Capability, Class, Context, Element, Failed, Handlers, Init, Inspection, Offers, Packet,
    Reason, Refused, Setup, register,
};
use millrace_gpu::kernel::{Kernel, NONE, PAYLOAD_LANES};
use millrace_gpu::region::{Base, Region};
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};
use millrace_match::patterns::{EngineChoice, Kind as Protocol, Scratch, Text};

use super::section::book::Member;
use super::section::predicate::Predicate;
use super::section::role::{Role, StageRole};
use crate::ids::detection::payload::{From, HEADER, locate};
use crate::ids::detection::rules::{Compiled, Target};
use crate::ids::detection::watch::{self, Watch};

/// The element; its manual is at the top of the file.
pub struct GpuIdsMatcher {
    member: Member,
    matching: Arc<Matching>,
}

/// The matcher as a stage.
struct Matching {
    name: String,
    element: usize,
    watch: Watch,
    from: From,
    lanes: u32,
    /// Whether an earlier matcher writes the same annotation, so that this one must not write it when it finds nothing.
    follows: AtomicBool,
}

/// For the other matchers of a section.
impl Capability for Matching {
    const NAME: &'static str = "rule numbers";
}

register!(GpuIdsMatcher, "gpu_ids_matcher.rs");

impl Element for GpuIdsMatcher {
    const CLASS: Class = Class::new("GPUIDSMatcher", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (ports, element, name) = (setup.outputs(), setup.id(), setup.name().to_owned());
        let args = &mut setup.args;
        let from = args.keyword("FROM", From::default());
        let only: Option<Predicate> = args.optional_keyword("CHK_ANNO");
        let lanes = args.in_range("LANES", Kind::Keyword, 1..=32u32).unwrap_or(PAYLOAD_LANES);
        if !lanes.is_power_of_two() {
            args.error("LANES", "LANES must be a power of two");
        }
        let target = Target { engine: EngineChoice::Dfa, streams: false };
        let watch = Watch::configure(args, target)?;
        args.complete()?;
        let follows = AtomicBool::new(false);
        let matching = Arc::new(Matching { name, element, watch, from, lanes, follows });
        let stage = matching.clone();
        let notes = Some(matching.watch.alarm.anno()..matching.watch.alarm.anno() + 4);
        let role = StageRole { stage, only, ports, reason: |_| Reason::Filtered, notes };
        Ok(Self { member: Member::enter(setup, Role::Stage(role)), matching })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.matching.watch.inspect(inspection);
        self.member.inspect(inspection);
        let Some(unit) = self.member.unit() else { return };
        let stages = unit.layout.stages.iter().map(|placed| placed.element);
        let mut before = stages.take_while(|&stage| stage != inspection.id());
        let follows = before.any(|stage| {
            let other = inspection.offered::<Matching>(stage);
            other.is_some_and(|other| other.watch.alarm.anno() == self.matching.watch.alarm.anno())
        });
        self.matching.follows.store(follows, Relaxed);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.matching.watch.initialize()
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide(self.matching.clone());
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.matching.watch.take(&old.matching.watch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        watch::handlers(handlers, |ids: &Self| &ids.matching.watch);
        handlers.read("image_bytes", |ids, _| {
            ids.matching.table().map_or(0, |table| table.words.len() * 4)
        });
    }
}

impl Stage for Matching {
    fn name(&self) -> &str {
        &self.name
    }

    fn spec(&self) -> StageSpec {
        let From(base) = self.from;
        StageSpec {
            kernel: Kernel::AhoCorasick,
            regions: vec![Region::read(Base::Network, 0, HEADER), Region::to_end(base, 0)],
            // The first slice is the network header.
            constants: [self.lanes, 1, 0, 0],
            table: true,
            outputs: 2,
        }
    }

    fn table(&self) -> Option<StageTable> {
        let rules = self.watch.rules.keep();
        let (epoch, words) = (rules.number, rules.matcher.image()?.shared());
        Some(StageTable { epoch, words, changes: Arc::default(), snapshot: Snapshot::of(rules) })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.watch.rules.keep())
    }

    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>) {
        thread_local! {
            static SCRATCH: RefCell<Scratch> = RefCell::default();
        }
        let rules = self.rules_of(snapshot);
        let mut texts = [Text { bytes: &[], kind: Protocol::Other }; Batch::CAPACITY];
        let mut found = [0; Batch::CAPACITY];
        let (packets, active, results, decisions) = rows.parts();
        let treated = packets.iter().zip(active).filter(|(_, active)| **active);
        let mut count = 0;
        for (text, (packet, _)) in texts.iter_mut().zip(treated) {
            *text = locate(packet, self.from).text;
            count += 1;
        }
        let (Some(texts), Some(found)) = (texts.get(..count), found.get_mut(..count)) else {
            return;
        };
        SCRATCH.with_borrow_mut(|scratch| rules.matcher.firsts(texts, found, scratch));
        let mut found = found.iter();
        for ((&active, result), decision) in active.iter().zip(results).zip(decisions) {
            if active && let Some(rule) = found.next() {
                // No match is 0 in `found`, and all ones in the result.
                *result = rule.wrapping_sub(1);
                *decision = u32::from(*rule > 0);
            }
        }
    }

    fn deliver(
        &self,
        cx: &mut Context,
        snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        let rules = self.rules_of(snapshot);
        let follows = self.follows.load(Relaxed);
        for (packet, &result) in packets.iter_mut().zip(results.iter()) {
            if result != NONE {
                self.watch.alarm.note(packet, result + 1);
                cx.run_as(self.element, |cx| {
                    self.watch.alarm.raise(cx, &rules, result, &locate(packet, self.from));
                });
            } else if !follows {
                self.watch.alarm.note(packet, 0);
            }
        }
    }
}

impl Matching {
    /// The rules for a batch.
    fn rules_of(&self, snapshot: &Snapshot) -> Arc<Compiled> {
        snapshot.get().unwrap_or_else(|| self.watch.rules.keep())
    }
}
