//! GPUSDNClassifier - classifies packets by rules over seven header fields on the GPU
//!
//! # Synopsis
//! `GPUSDNClassifier([FILE, keywords RULE, DEFAULT, CHK_ANNO, OUTPUTS])`
//!
//! # Description
//! Goes between HostToDeviceMemcpy and DeviceToHostMemcpy. Does the same as SDNClassifier, for a whole batch at once:
//! the first rule that matches a packet decides its output. Rules, files and fields are those of SDNClassifier:
//! Ethernet source, destination and type, IPv4 source, destination and protocol, and ports of TCP and UDP.
//!
//! When several outputs are connected, to other GPU elements, packets leave by their rule's output. When one is
//! connected, all packets leave by it, and a Dispatcher after the Debatcher separates them: `Dispatcher(sdn.0, sdn.3)`.
//! Packets to be dropped go to no further element of the section.
//!
//! The device searches the same decision trees as the CPU. 40 bytes of each packet's headers are copied to it. A rule
//! change applies to whole batches: all packets of a batch see the rules either before or after it.
//!
//! # Arguments
//! - FILE: the file of rules. Positional. It is read when the configuration is checked and before the router starts. It
//!   must be a regular file, not a pipe or a device, of 256 MiB at most. A file without rules is refused: it is more
//!   likely the wrong file, or one that is still being written. To replace it, move a new version into its place (mv),
//!   so that no reader sees half of it.
//! - RULE: one more rule, before those of FILE. May be repeated.
//! - DEFAULT: the output of packets that match no rule, or `drop`. Default drop.
//! - CHK_ANNO: process only packets for which this predicate holds; others pass: `element.output`, an earlier GPU
//!   element that chose this output.
//! - OUTPUTS: how many outputs rules may name when only one is connected, 1 to 1022. Default 14: each element that
//!   decides uses some of the 32 bits of the predicate word.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `rules` (read, write): the rules in force, one per line, with their numbers from 0; writing a text of rules
//!   without numbers replaces them all.
//! - `insert N RULE` (write): inserts a rule before rule N, or at the end; `add RULE` (write): at the end.
//! - `replace N RULE` (write): replaces rule N.
//! - `remove N` (write): removes rule N.
//! - `load` (write): reads the rules from this file, or FILE again, and RULE.
//! - `counts` (read): packets by output, one line each: the output, or `drop` for packets dropped by a rule and `none`
//!   for packets dropped because no rule matched, and the count.
//! - `reset_counts` (write): resets the counts to 0.
//! - `memory` (read): bytes of the trees.
//! - `image_bytes` (read): bytes of the trees on the device.
//! - `build_time` (read): seconds that building the trees took.
//!
//! If new rules have an error, the message has file, line and column, and the old ones stay in force.
//!
//! After a hot swap the rules are those of the new configuration and its file, as after a start: changes made through
//! handlers are lost, as with routes. `counts` are kept, output by output.
//!
//! # Drops
//! - filtered: a rule drops the packet.
//! - no match: no rule matches, and DEFAULT is `drop`.
//!
//! # Example
//! ```click
//! InfiniteSource("hello", LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.2.3, 53)
//!     -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> sdn :: GPUSDNClassifier(RULE "@10.0.0.0/8 0.0.0.0/0 0 : 65535 53 : 53 0x11/0xff 1", DEFAULT 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(sdn.0, sdn.1);
//! d [0] -> Discard;
//! d [1] -> Counter -> Discard;
//! ```
//!
//! # See also
//! SDNClassifier, Dispatcher, GPUIDSMatcher

use std::sync::Arc;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Packet, Reason, Refused,
    Setup, isa, register,
};
use millrace_gpu::kernel::{CLASSIFY_REGIONS, Kernel, NONE};
use millrace_gpu::plan::Decision;
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};
use millrace_match::rules::Key;

use super::section::arguments::outputs_of;
use super::section::book::Member;
use super::section::predicate::Predicate;
use super::section::role::{Role, StageRole};
use crate::classify::sdn::counts::{self, SdnCounts};
use crate::classify::sdn::rules::{self, FILTERED, NO_MATCH, RulesInForce, SdnRules, key_of};

/// The element; its manual is at the top of the file.
pub struct GpuSdnClassifier {
    member: Member,
    classifying: Arc<Classifying>,
}

/// The classifier as a stage.
struct Classifying {
    name: String,
    rules: SdnRules,
    outputs: u32,
    counts: SdnCounts,
}

register!(GpuSdnClassifier, "gpu_sdn_classifier.rs");

impl Element for GpuSdnClassifier {
    const CLASS: Class = Class::new("GPUSDNClassifier", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (ports, name) = (setup.outputs(), setup.name().to_owned());
        let args = &mut setup.args;
        let only: Option<Predicate> = args.optional_keyword("CHK_ANNO");
        let outputs = outputs_of(args, ports);
        let rules = SdnRules::configure(args, outputs as usize);
        args.complete()?;
        let counts = SdnCounts::new(outputs as usize);
        let classifying = Arc::new(Classifying { name, rules, outputs, counts });
        let stage = classifying.clone();
        let reason = |rule| if rule == NONE { Reason::NoMatch } else { Reason::Filtered };
        let role = StageRole { stage, only, ports, reason, notes: None };
        Ok(Self { member: Member::enter(setup, Role::Stage(role)), classifying })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.classifying.rules.inspect(inspection);
        self.member.inspect(inspection);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.classifying.rules.initialize()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.classifying.counts.take(&old.classifying.counts);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        rules::handlers(handlers, |sdn: &Self| &sdn.classifying.rules);
        counts::handlers(handlers, |sdn: &Self| &sdn.classifying.counts);
        handlers.read("image_bytes", |sdn, _| {
            sdn.classifying.table().map_or(0, |table| table.words.len() * 4)
        });
    }
}

impl Stage for Classifying {
    fn name(&self) -> &str {
        &self.name
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Classify,
            regions: CLASSIFY_REGIONS.to_vec(),
            constants: [0; 4],
            table: true,
            outputs: self.outputs,
        }
    }

    fn table(&self) -> Option<StageTable> {
        let rules = self.rules.keep();
        let (epoch, words) = (rules.number, rules.table().clone());
        Some(StageTable { epoch, words, changes: Arc::default(), snapshot: Snapshot::of(rules) })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.rules.keep())
    }

    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>) {
        let rules = self.rules_of(snapshot);
        let mut keys = [Key::default(); Batch::CAPACITY];
        let mut found = [NONE; Batch::CAPACITY];
        let (packets, active, results, decisions) = rows.parts();
        let treated = packets.iter().zip(active).filter(|(_, active)| **active);
        let mut count = 0;
        for (key, (packet, _)) in keys.iter_mut().zip(treated) {
            *key = key_of(packet);
            count += 1;
        }
        let (keys, found) = (&keys[..count], &mut found[..count]);
        isa::run(
            #[inline(always)]
            || rules.live.classify(keys, found),
        );
        let mut found = found.iter();
        for ((&active, result), decision) in active.iter().zip(results).zip(decisions) {
            if active && let Some(&rule) = found.next() {
                *result = rule;
                *decision = match rules.port(rule) {
                    FILTERED | NO_MATCH => Rows::DROP,
                    port => port.into(),
                };
            }
        }
    }

    fn deliver(
        &self,
        cx: &mut Context,
        _snapshot: &Snapshot,
        _packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        let ports = results.iter().zip(results.decisions());
        let ports = ports.filter_map(|(&rule, decision)| match decision {
            Decision::Open => None,
            Decision::Output(output) => u16::try_from(output).ok(),
            Decision::Drop if rule == NONE => Some(NO_MATCH),
            Decision::Drop => Some(FILTERED),
        });
        self.counts.add(cx, ports);
    }
}

impl Classifying {
    /// The rules for a batch.
    fn rules_of(&self, snapshot: &Snapshot) -> Arc<RulesInForce> {
        snapshot.get().unwrap_or_else(|| self.rules.keep())
    }
}
