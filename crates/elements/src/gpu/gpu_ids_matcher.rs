//! GPUIDSMatcher - searches payloads for patterns on the device
//!
//! # Synopsis
//! `GPUIDSMatcher([FILE, keywords PATTERN, FORMAT, NOCASE, FROM, ANNO, LOG, CHK_ANNO, LANES])`
//!
//! # Description
//! Stands between HostToDeviceMemcpy and DeviceToHostMemcpy. Does what IDSMatcher does, for a whole batch at once:
//! searches the payload of each packet for all patterns, and notes the number of the first rule that alerts in the
//! annotation ANNO, counted from 1; 0 means none. Files and patterns are those of IDSMatcher.
//!
//! It decides between two outputs: 1 for packets with an alert, 0 for others. With both connected, to other GPU elements,
//! packets go by them. With one, all go on by it, and a Dispatcher after the Debatcher parts them: `Dispatcher(ids.1, -)`.
//!
//! Of each packet the payload is copied to the device, and 128 bytes of its network header, by which the protocol is told.
//! Threads of the device that share a packet search a part of it each, and what a pattern may reach in from before.
//!
//! Of several matchers in a section that note in the same annotation, each notes what it finds; one that finds nothing
//! leaves what another one before it has noted.
//!
//! # Arguments
//! - FILE: the file of patterns. Positional. It is read when the
//!   configuration is checked and before the router starts: a file, not a pipe or a device, of 256 MiB at most. Without a
//!   pattern it is refused: sooner it is the wrong one, or somebody is about to write it. A new version is best moved into its
//!   place (mv), so that nobody reads half of it.
//! - PATTERN: one more pattern, behind those of the file. Can be given often.
//! - FORMAT: `PLAIN`, `SNORT`, or `AUTO`. Default AUTO.
//! - NOCASE: whether plain patterns and PATTERN are found in any case. Default false.
//! - FROM: from where on a packet is searched: `PAYLOAD`, `TRANSPORT`, `NETWORK_PAYLOAD`, `NETWORK`, `ETHERNET`. Default
//!   PAYLOAD.
//! - ANNO: annotation of four bytes, by name or offset. Default 44.
//! - LOG: whether a line is printed for each alert: `ids: alert 2 [1002] login: 10.0.0.1.1234 > 10.0.0.2.80 tcp, offset 4`, with the
//!   rule's number, its sid if it has one, its message or pattern, and where in the payload it begins. Default false.
//! - CHK_ANNO: treats only packets for which this holds, others pass: `element.output`, a GPU element before this one
//!   that decided for this output.
//! - LANES: threads of the device that share a packet, a power of two up to 32. Default 8; `bench gpu-calibrate`
//!   measures which is the best.
//!
//! # Ports
//! One push input, one or two push outputs.
//!
//! # Handlers
//! - `alerts` (read): packets with an alert.
//! - `counts` (read): a line for each rule: its number, how often it alerted, its sid or `-`, its message or pattern.
//! - `reset_counts` (write): counts from 0 again.
//! - `patterns` (read, write): the rules in force, as rules; written, those of a text take their place.
//! - `load` (write): reads the rules from this file, or FILE again, and PATTERN.
//! - `memory` (read): bytes that the CPU's form of the rules takes.
//! - `image_bytes` (read): bytes that they take on the device.
//! - `build_time` (read): seconds that it took to build them.
//!
//! New rules are built beside the old ones. A batch that is under way meanwhile is searched by the rules that it began with, and
//! its alerts name and count those. If something is wrong with new rules the old ones stay, and the message has file, line and
//! column. Rules that stay, word for word, keep their counts.
//!
//! After a hot swap the rules are those of the new configuration and its file, as after a start: what handlers had put in
//! their place is gone. Rules that are the same go on counting.
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
    Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Packet, Reason, Refused,
    Setup, register,
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
    /// Whether a matcher before it notes in the same annotation, so that this one must not write where it found nothing.
    follows: AtomicBool,
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
            let other = inspection.element::<Self>(stage);
            other.is_some_and(|other| {
                other.matching.watch.alarm.anno() == self.matching.watch.alarm.anno()
            })
        });
        self.matching.follows.store(follows, Relaxed);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.matching.watch.initialize()
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
                // None is 0 there, and all ones here.
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
    /// The rules that a batch is searched by.
    fn rules_of(&self, snapshot: &Snapshot) -> Arc<Compiled> {
        snapshot.get().unwrap_or_else(|| self.watch.rules.keep())
    }
}
