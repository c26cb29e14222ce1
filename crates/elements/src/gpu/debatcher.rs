//! Debatcher - gives the packets of batches back to the graph
//!
//! # Synopsis
//! `Debatcher([keywords ANNO])`
//!
//! # Description
//! Where packets leave a GPU section. When a batch is done, and all batches of the thread before it, what the
//! device changed is copied back into the packets, each element's results are handed to them (a gateway, the
//! number of a pattern), and the packets are sent on in the order in which they came to the Batcher.
//!
//! What the section's elements decided stays with each packet as its predicate word, so that Dispatcher can
//! part them: an element that decides between outputs has some bits in it, which are 0 when the packet did not
//! come to the element, and else 1 more than the output. Packets that an element decided to drop are dropped
//! here, and counted there.
//!
//! A device that fails or hangs costs no packet: the CPU does the work instead, in order, and the device is
//! tried again later. Both are told on standard error, once a second at most.
//!
//! Nor does a stop: before the router ends, batches are finished and their packets are sent on, those of batches
//! that are not full too. What is behind then gets them as ever (a ToDump writes them, a Queue keeps them).
//!
//! # Arguments
//! - ANNO: the annotation of 4 bytes that the predicate word goes to. Default 40; a section in which nothing is
//!   decided leaves it alone.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `latency` (read): nanoseconds that packets spent in the section: of the oldest packet of each batch half,
//!   99 of 100, and all were at most so old.
//! - `latency_histogram` (read): the same in full, a line for each range: its upper end, batches.
//! - `gpu_packets`, `cpu_packets` (read): packets that the device, and that the CPU treated.
//! - `gpu_batches`, `cpu_batches` (read): batches that the device, and that the CPU treated.
//! - `failures` (read): a line for each thing that went wrong with the device, and how often it did.
//! - `fields` (read): the predicate word: a line for each element that decides, with the first of its bits and
//!   how many.
//! - `reset_counts` (write): has the section count from 0 again: what this element, Balancer and Batcher tell.
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

/// A line for each thing that went wrong, and one for the batches that the CPU treated for it.
fn failures(report: &Report) -> String {
    let mut text = String::new();
    for fault in Fault::ALL {
        let _ = writeln!(text, "{}\t{}", fault.name(), report.fault(fault));
    }
    let _ = writeln!(text, "again\t{}", report.again);
    text
}
