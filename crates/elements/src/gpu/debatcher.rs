//! Debatcher - emits the packets of finished GPU batches in order
//!
//! # Synopsis
//! `Debatcher([keywords ANNO])`
//!
//! # Description
//! The exit of a GPU section. When a batch and all earlier batches of the thread are done, the device's changes are
//! copied back into the packets, each element's results are applied to them (a gateway, the number of a pattern), and
//! the packets are emitted in the order in which they arrived at the Batcher.
//!
//! Each packet keeps the decisions of the section's elements as its predicate word, so that Dispatcher can route it.
//! Each element that decides between outputs has some bits of the word: 0 if the packet did not come to the element,
//! else the output plus 1. Packets that an element decided to drop are dropped here, and counted there.
//!
//! A device that fails or hangs costs no packet: the CPU does the work instead, in order, and the device is tried again
//! later. Both are reported on standard error, at most once a second.
//!
//! Stopping loses no packet either: before the router ends, all batches, even partial ones, are finished and their
//! packets emitted. The elements downstream process them as usual (ToDump writes them, Queue keeps them).
//!
//! # Arguments
//! - ANNO: the four-byte annotation for the predicate word. Default 40. A section without decisions does not write it.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `latency` (read): how long packets were in the section, in nanoseconds: median, 99th percentile and maximum of the
//!   age of each batch's oldest packet.
//! - `latency_histogram` (read): the full histogram, one line per range: its upper end, and the number of batches.
//! - `gpu_packets`, `cpu_packets` (read): packets processed by the device, and by the CPU.
//! - `gpu_batches`, `cpu_batches` (read): batches processed by the device, and by the CPU.
//! - `failures` (read): one line for each kind of device failure: its name, and how often it happened.
//! - `fields` (read): the layout of the predicate word: one line for each element that decides, with its first bit and
//!   its number of bits.
//! - `reset_counts` (write): resets the section's counts, which this element, Balancer and Batcher report.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(2.0.0.0/8 1.0.0.254 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher(ANNO 36)
//!     -> Discard;
//! ```
//!
//! # See also
//! Batcher, Dispatcher

use std::fmt::Write;

use millrace_core::args::Annotation;
use millrace_core::element::Receiver;
use millrace_core::{Class, Context, Element, Failed, Handlers, Inspection, Setup, register};
use millrace_gpu::section::{Fault, Report};

use super::section::arguments::PREDICATE_ANNOTATION;
use super::section::book::Member;
use super::section::role::Role;

/// The element; its manual is at the top of the file.
pub struct Debatcher {
    member: Member,
    tasks: Receiver,
}

register!(Debatcher, "debatcher.rs");

impl Element for Debatcher {
    const CLASS: Class = Class::new("Debatcher", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation::<4>(annotation) =
            setup.args.keyword("ANNO", Annotation(PREDICATE_ANNOTATION));
        setup.args.complete()?;
        let tasks = setup.tasks_where_reached();
        let member = Member::enter(setup, Role::Debatcher(tasks.clone(), annotation));
        Ok(Self { member, tasks })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.member.inspect(inspection);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let Some(unit) = self.member.unit() else { return false };
        let (busy, empty) = unit.attend(cx);
        if empty && let Some(task) = self.tasks.tasks().get(self.tasks.slot(cx.index())) {
            task.rest();
        }
        busy
    }

    fn drain(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.member.unit().is_some_and(|unit| unit.drain(cx))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("latency", |debatcher, _| {
            let age = debatcher.report().age;
            [0.5, 0.99, 1.0].map(|part| age.quantile(part).to_string()).join(" ")
        });
        handlers.read("latency_histogram", |debatcher, _| {
            let age = debatcher.report().age;
            age.buckets().map(|(end, batches)| format!("{end}\t{batches}\n")).collect::<String>()
        });
        handlers.read("gpu_packets", |debatcher, _| debatcher.report().gpu.packets);
        handlers.read("cpu_packets", |debatcher, _| debatcher.report().cpu.packets);
        handlers.read("gpu_batches", |debatcher, _| debatcher.report().gpu.batches);
        handlers.read("cpu_batches", |debatcher, _| debatcher.report().cpu.batches);
        handlers.read("failures", |debatcher, _| failures(&debatcher.report()));
        handlers.write("reset_counts", |debatcher, _| {
            debatcher.member.reset_counts();
            Ok(())
        });
        handlers.read("fields", |debatcher, call| {
            let Some(unit) = debatcher.member.unit() else { return String::new() };
            let mut text = String::new();
            for (placed, turn) in unit.layout.stages.iter().zip(&unit.turns) {
                if let Some(field) = turn.field {
                    let name = call.router().name_of(placed.element);
                    let _ = writeln!(text, "{name}\t{}\t{}", field.shift, field.bits);
                }
            }
            text
        });
    }
}

impl Debatcher {
    fn report(&self) -> Report {
        self.member.unit().map(|unit| unit.section.report()).unwrap_or_default()
    }
}

/// One line for each kind of failure, and one for the batches that the CPU processed because of failures.
fn failures(report: &Report) -> String {
    let mut text = String::new();
    for fault in Fault::ALL {
        let _ = writeln!(text, "{}\t{}", fault.name(), report.fault(fault));
    }
    let _ = writeln!(text, "again\t{}", report.again);
    text
}
