//! GPURuntime - selects and configures the device of GPU sections
//!
//! # Synopsis
//! `GPURuntime([keywords DEVICE, STREAMS, HOSTMEMSZ, DEVMEMSZ, PATIENCE, FAULTS, SEED])`
//!
//! # Description
//! The device of all GPU sections. A configuration has at most one GPURuntime; without one, the defaults apply: the
//! first NVIDIA GPU whose driver can be loaded, or else the host itself, which runs the same kernels. The router prints
//! which device it uses, and why, when it starts.
//!
//! A device that is lost is opened again, with growing pauses; until then the CPU does the work.
//!
//! # Arguments
//! - DEVICE: `auto`; `cuda` for the first GPU, or a number for another one: then the router does not start without it;
//!   `host` for the host, batch by batch on the thread itself; `simulator` for a simulated GPU, with threads, separate
//!   memory and work out of order, for testing configurations. Default `auto`.
//! - STREAMS: maximum number of a thread's batches on the device at once, 1 to 64, unless a Batcher has SLOTS. Default
//!   6.
//! - HOSTMEMSZ: maximum host memory for batches, in MiB, or with a unit. A section that may need more does not start.
//!   Default: no limit.
//! - DEVMEMSZ: maximum device memory for batches and for the tables' size at the start, in MiB, or with a unit. A
//!   section that may need more does not start. Default: only the device's limit.
//! - FAULTS, SEED: the probability that a step of the simulator fails, such as `1%`, and the seed of its random
//!   numbers. Default 0.
//! - PATIENCE: how long the device may work on a batch before it counts as hung. Default 100ms.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `device` (read): the device, and why it was selected.
//! - `backend` (read): `cuda`, `host` or `simulator`.
//! - `memory` (read): bytes of host memory for batches; bytes of device memory for batches and for tables at the start.
//! - `streams` (read): STREAMS.
//! - `state` (read): `up`, or `down` while there is no device.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! GPURuntime(DEVICE host, STREAMS 4);
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(2.0.0.0/8 1.0.0.254 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> Discard;
//! ```
//!
//! # See also
//! Batcher, Balancer

use std::sync::Arc;

use millrace_core::args::{Arg, ArgError, ArgText, Kind, Scope, Seconds};
use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

use super::section::arguments::Part;
use super::section::book::Book;
use super::section::runtime::{Choice, Options};

/// The element; its manual is at the top of the file.
pub struct GpuRuntime(Arc<Book>);

register!(GpuRuntime, "gpu_runtime.rs");

impl Element for GpuRuntime {
    /// The device is selected before the elements that use it.
    const CLASS: Class =
        Class::new("GPURuntime", "0/0", "a/a").information().phase(Class::PHASE_INFO);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let default = Options::default();
        let WrittenDevice(device) = args.keyword("DEVICE", WrittenDevice(default.device));
        let streams = args.in_range("STREAMS", Kind::Keyword, 1..=64u32);
        let host_memory: Option<Mebibytes> = args.optional_keyword("HOSTMEMSZ");
        let device_memory: Option<Mebibytes> = args.optional_keyword("DEVMEMSZ");
        let patience = args.keyword("PATIENCE", Seconds::from_millis(100));
        if patience < Seconds::from_millis(1) {
            args.error("PATIENCE", "PATIENCE must be at least 1ms");
        }
        let Part(faults) = args.keyword("FAULTS", Part(0.0));
        let seed: Option<u64> = args.optional_keyword("SEED");
        let device = match device {
            Choice::Simulator { .. } => Choice::Simulator { faults, seed: seed.unwrap_or(0) },
            other => {
                if faults > 0.0 || seed.is_some() {
                    args.error("DEVICE", "FAULTS and SEED are for the simulator");
                }
                other
            }
        };
        args.complete()?;
        let options = Options {
            device,
            streams: streams.map_or(default.streams, |streams| streams as usize),
            host_memory: host_memory.map(|Mebibytes(bytes)| bytes),
            device_memory: device_memory.map(|Mebibytes(bytes)| bytes),
            patience: patience.into(),
        };
        let book: Arc<Book> = setup.shared();
        if !book.runtime.configure(options) {
            setup.args.error((), "there is another GPURuntime: a configuration can have only one");
            return Err(Failed);
        }
        Ok(Self(book))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("device", |runtime, _| {
            runtime.0.runtime.caps().map_or_else(|| "none".to_owned(), |caps| caps.name)
        });
        handlers.read("backend", |runtime, _| {
            runtime.0.runtime.caps().map_or("none", |caps| caps.backend)
        });
        handlers.read("memory", |runtime, _| {
            let (host, device) = runtime.0.runtime.memory();
            format!("{host} {device}")
        });
        handlers.read("streams", |runtime, _| runtime.0.runtime.options().streams);
        handlers.read("state", |runtime, _| match runtime.0.runtime.caps() {
            Some(_) => "up",
            None => "down",
        });
    }
}

struct WrittenDevice(Choice);

impl Arg for WrittenDevice {
    const EXPECTS: &'static str = "‘auto’, ‘cuda’, the number of a GPU, ‘host’ or ‘simulator’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let choice = match text.as_str().to_ascii_lowercase().as_str() {
            "auto" => Choice::Auto,
            "cuda" => Choice::Cuda(0),
            "host" => Choice::Host,
            "simulator" => Choice::Simulator { faults: 0.0, seed: 0 },
            _ => Choice::Cuda(u32::parse(text, scope).map_err(|_| ArgError::default())?),
        };
        Ok(Self(choice))
    }

    fn placeholder() -> Self {
        Self(Choice::Auto)
    }
}

/// An amount of memory in bytes, given in MiB or with a unit.
struct Mebibytes(u64);

impl Arg for Mebibytes {
    const EXPECTS: &'static str = "a number of MiB, or an amount with a unit such as ‘2GiB’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let split =
            text.as_str().find(|c: char| !c.is_ascii_digit()).unwrap_or(text.as_str().len());
        let (number, unit) = text.as_str().split_at(split);
        let number = u32::parse(&ArgText::from(number), scope).map_err(|_| ArgError::default())?;
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "m" | "mib" => 20,
            "k" | "kib" => 10,
            "g" | "gib" => 30,
            _ => return Err(ArgError::default()),
        };
        Ok(Self(u64::from(number) << shift))
    }

    fn placeholder() -> Self {
        Self(0)
    }
}
