//! Balancer - balances the batches of a GPU section between device and CPU
//!
//! # Synopsis
//! `Balancer([keywords MODE, INTERVAL, PROBE])`
//!
//! # Description
//! Goes between Batcher and HostToDeviceMemcpy. Either the device or the thread itself can do the work of a GPU
//! section, with the same results. This element measures what a packet costs the thread either way, and moves the
//! device's share of batches to where packets cost least. It moves in small steps, but at once when the device is at
//! its limit or fails, and keeps sending a small part of the batches the other way so that it notices when that becomes
//! cheaper.
//!
//! Batches stay in order either way. Each thread has its own share.
//!
//! Without a Balancer the device gets every batch as long as it works.
//!
//! # Arguments
//! - MODE: `adaptive`; `gpu` or `cpu` for one way only. Default `adaptive`. On a virtual clock (`--simtime`), which
//!   makes runs repeatable, nothing is measured: there `adaptive` starts as `gpu`.
//! - INTERVAL: the time between adjustments. Default 200ms.
//! - PROBE: the part of the batches that goes the other way, to be measured: `2%`, or `0.02`. At most a half. Default
//!   2%.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `share` (read): the part of the batches that the device gets, averaged over the threads.
//! - `cycles` (read): the thread's cycles per packet: for the device, for the CPU.
//! - `mode` (read/write): MODE.
//! - `reset_counts` (write): resets the section's counts, which this element, Batcher and Debatcher report.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> Balancer(PROBE 5%)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(2.0.0.0/8 1.0.0.254 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> Discard;
//! ```
//!
//! # See also
//! Batcher, GPURuntime

use millrace_core::args::{Arg, ArgError, ArgText, Scope, Seconds};
use millrace_core::{Class, Element, Failed, HandlerError, Handlers, Inspection, Setup, register};
use millrace_gpu::section::{Mode, PathReport, Report};

use super::section::arguments::Part;
use super::section::book::Member;
use super::section::role::{Balancing, Role};

/// The element; its manual is at the top of the file.
pub struct Balancer(Member);

register!(Balancer, "balancer.rs");

impl Element for Balancer {
    const CLASS: Class = Class::new("Balancer", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let WrittenMode(mode) = args.keyword("MODE", WrittenMode(Mode::Adaptive));
        let interval = args.keyword("INTERVAL", Seconds::from_millis(200));
        if interval < Seconds::from_millis(1) {
            args.error("INTERVAL", "INTERVAL must be at least 1ms");
        }
        let Part(probe) = args.keyword("PROBE", Part(0.02));
        if probe > 0.5 {
            args.error("PROBE", "PROBE must be at most a half");
        }
        args.complete()?;
        let balancing = Balancing { mode, interval: interval.into(), probe };
        Ok(Self(Member::enter(setup, Role::Balancer(balancing))))
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.0.inspect(inspection);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("share", |balancer, _| format!("{:.4}", balancer.report().share));
        handlers.read("cycles", |balancer, _| {
            let report = balancer.report();
            let cycles = |path: PathReport| path.cycles as f64 / path.packets.max(1) as f64;
            format!("{:.1} {:.1}", cycles(report.gpu), cycles(report.cpu))
        });
        handlers.read("mode", |balancer, _| {
            let unit = balancer.0.unit();
            name_of(unit.map_or(Mode::default(), |unit| unit.section.mode()))
        });
        handlers.write("reset_counts", |balancer, _| {
            balancer.0.reset_counts();
            Ok(())
        });
        handlers.write("mode", |balancer, call| {
            let WrittenMode(mode) = call.parse()?;
            let unit = balancer.0.unit();
            let unit = unit.ok_or_else(|| HandlerError::from("it is not in a GPU section"))?;
            unit.section.set_mode(mode);
            Ok(())
        });
    }
}

impl Balancer {
    fn report(&self) -> Report {
        let unit = self.0.unit();
        unit.map(|unit| unit.section.report()).unwrap_or_default()
    }
}

fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Adaptive => "adaptive",
        Mode::Gpu => "gpu",
        Mode::Cpu => "cpu",
    }
}

struct WrittenMode(Mode);

impl Arg for WrittenMode {
    const EXPECTS: &'static str = "‘adaptive’, ‘gpu’ or ‘cpu’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let modes = [Mode::Adaptive, Mode::Gpu, Mode::Cpu];
        let found =
            modes.into_iter().find(|&mode| name_of(mode).eq_ignore_ascii_case(text.as_str()));
        found.map(Self).ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self(Mode::Adaptive)
    }
}
