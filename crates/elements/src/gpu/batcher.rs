//! Batcher - collects packets into batches for GPU elements
//!
//! # Synopsis
//! `Batcher([CAPACITY, keywords TIMEOUT, BYTES, SLOTS, SLICE_BEGIN, SLICE_END, ANN_FLAGS, FORCE_PKTLENS])`
//!
//! # Description
//! The entry of a GPU section:
//!
//! ```text
//! Batcher -> [Balancer ->] HostToDeviceMemcpy -> GPU elements -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher
//! ```
//!
//! A batch ends when it has CAPACITY packets or BYTES bytes of payload, when its oldest packet is TIMEOUT old, or when
//! the device is idle and no more packets arrive, since waiting then gains nothing. So a single packet passes at once,
//! and batches grow under load.
//!
//! Each thread that receives packets here has its own batches, and packets leave the section on the same thread, in
//! order. Packets are not copied: the batch holds them, and the device gets the slices that the section's elements
//! need. A thread holds at most LENGTH + 1 batches (LENGTH of GPUCompletionQueue). When they are full, it waits for the
//! oldest one before it accepts more packets, so no packet is dropped for lack of room.
//!
//! A section is one unit: the work of its elements and the path of every packet are planned before the start.
//! `millrace check` reports what cannot be planned, and where it is in the configuration.
//!
//! GPURuntime selects the device. Without a GPU the same configuration runs on the host.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets in a batch, 1 to 16384. Default 1024. Positional.
//! - TIMEOUT: maximum age of a batch's oldest packet: a number of milliseconds, or a time with a unit such as `50us`.
//!   Default 50us.
//! - BYTES: maximum bytes of payload that a batch copies to the device, 65536 to 1073741824. A thread holds at most
//!   LENGTH + 1 times as many bytes of packets. Default: 2 KiB for each of CAPACITY packets.
//! - SLOTS: maximum number of a thread's batches on the device at once, 1 to 64. Default: STREAMS of GPURuntime.
//! - SLICE_BEGIN, SLICE_END: bytes of each packet to copy to the device in addition to what the elements need: an
//!   offset from its Ethernet header, and the offset of the end, which is excluded; 32767 at most. A SLICE_END of 0 or
//!   -1 means the end of the packet. Defaults 0 and, when SLICE_BEGIN is not given either, nothing.
//! - ANN_FLAGS: whether to copy all 48 bytes of annotations: 1 to the device, 2 or 3 both ways (bytes that no element
//!   writes come back unchanged), 0 only as the elements need. Default 0.
//! - FORCE_PKTLENS: accepted without effect: the length of each slice is always copied.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `length` (read): packets in unfinished batches.
//! - `capacity` (read): CAPACITY.
//! - `batches` (read): batches that have left the section.
//! - `mean` (read): average number of packets per batch.
//! - `reset_counts` (write): resets the section's counts, which this element, Balancer and Debatcher report.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256, TIMEOUT 100us)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(2.0.0.0/8 1.0.0.254 0, 0/0 1)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(rt.0, rt.1);
//! d [0] -> Discard;
//! d [1] -> Discard;
//! ```
//!
//! # See also
//! Debatcher, GPURuntime, Balancer

use std::sync::Arc;
use std::time::Duration;

use millrace_core::args::{Arg, ArgError, ArgText, Kind, Scope, Seconds};
use millrace_core::memory::ANNOTATION_LEN;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Reason, Refused, Setup,
    register,
};
use millrace_gpu::region::{Access, Base, Extent, Region};

use super::section::book::Member;
use super::section::role::{Collecting, Role};
use super::section::unit::Passage;

/// The element; its manual is at the top of the file.
pub struct Batcher {
    member: Member,
    capacity: usize,
}

/// A thread's state.
#[derive(Default)]
pub struct Local {
    passage: Option<Arc<Passage>>,
}

register!(Batcher, "batcher.rs");

impl Element for Batcher {
    /// The section's tables are read before it is prepared.
    const CLASS: Class = Class::new("Batcher", "1/1", "h/h").phase(5);
    type Local = Local;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let collecting = collecting(setup)?;
        let capacity = collecting.capacity;
        Ok(Self { member: Member::enter(setup, Role::Batcher(collecting)), capacity })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.member.inspect(inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let unit = self.member.unit().ok_or("it is not in a GPU section")?;
        self.member.book.runtime.start(&unit.section, init)
    }

    fn push(&self, cx: &mut Context, local: &mut Local, _port: usize, batch: &mut Batch) {
        let Some(unit) = self.member.unit() else {
            return cx.drop_batch(batch, Reason::Unconnected);
        };
        unit.enter(cx, batch);
        if local.passage.is_none() {
            local.passage = Some(unit.passages.mine(cx).clone());
        }
    }

    /// If a task left the thread, its packets would overtake those that are in the section here.
    fn handed_over(&self, local: &Local, _thread: usize, rings: &mut Vec<(u64, u64)>) {
        let passage = local.passage.as_ref();
        rings.extend(passage.map(|passage| (passage.entered.get(), passage.left.get())));
    }

    fn held(&self) -> usize {
        self.member.unit().map_or(0, |unit| unit.held())
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if let (Some(unit), Some(old)) = (self.member.unit(), old.member.unit()) {
            unit.take_over(old);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |batcher, _| batcher.held());
        handlers.read("capacity", |batcher, _| batcher.capacity);
        handlers.read("batches", |batcher, _| batcher.done().0);
        handlers.read("mean", |batcher, _| match batcher.done() {
            (0, _) => "0".to_owned(),
            (batches, packets) => format!("{:.1}", packets as f64 / batches as f64),
        });
        handlers.write("reset_counts", |batcher, _| {
            batcher.member.reset_counts();
            Ok(())
        });
    }
}

impl Batcher {
    /// Batches and packets that have left the section.
    fn done(&self) -> (u64, u64) {
        let report = self.member.unit().map(|unit| unit.section.report()).unwrap_or_default();
        (report.gpu.batches + report.cpu.batches, report.gpu.packets + report.cpu.packets)
    }
}

/// A time in milliseconds, or with a unit.
#[derive(Clone, Copy)]
struct Millis(Seconds);

impl Arg for Millis {
    const EXPECTS: &'static str = "a number of milliseconds, or a time with a unit such as ‘50us’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        match u32::parse(text, scope) {
            Ok(millis) => Ok(Self(Seconds::from_millis(millis))),
            Err(_) => Seconds::parse(text, scope).map(Self),
        }
    }

    fn placeholder() -> Self {
        Self(Seconds::ZERO)
    }
}

/// Reads the arguments on how packets are collected.
fn collecting(setup: &mut Setup<'_>) -> Result<Collecting, Failed> {
    let args = &mut setup.args;
    let capacity = args.in_range("CAPACITY", Kind::Positional, 1..=1u32 << 14).unwrap_or(1024);
    let timeout: Option<Millis> = args.optional_keyword("TIMEOUT");
    let bytes = args.in_range("BYTES", Kind::Keyword, 1 << 16..=1u32 << 30);
    let bytes = bytes.unwrap_or((capacity << 11).max(1 << 16));
    let slots = args.in_range("SLOTS", Kind::Keyword, 1..=64u32);
    let begin = args.in_range("SLICE_BEGIN", Kind::Keyword, 0..=i32::from(i16::MAX));
    let end = args.in_range("SLICE_END", Kind::Keyword, -1..=i32::from(i16::MAX));
    let flags = args.in_range("ANN_FLAGS", Kind::Keyword, 0..=3u32).unwrap_or(0);
    args.ignored::<bool>(
        "FORCE_PKTLENS",
        Kind::Keyword,
        "the length of each slice is always copied",
    );
    if let (begin, Some(end)) = (begin.unwrap_or(0), end)
        && end > 0
        && end <= begin
    {
        args.error("SLICE_END", format!("SLICE_END must be beyond SLICE_BEGIN, which is {begin}"));
    }
    args.complete()?;
    let mut slices = Vec::new();
    if begin.is_some() || end.is_some() {
        let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(0));
        let extent = match u16::try_from(end - begin) {
            Ok(bytes) if end > 0 => Extent::Bytes(bytes),
            _ => Extent::ToEnd,
        };
        let offset = begin as i16;
        slices.push(Region { base: Base::Ethernet, offset, extent, access: Access::Read });
    }
    let access = match flags {
        0 => None,
        1 => Some(Access::Read),
        // Bytes that no element writes come back unchanged.
        _ => Some(Access::ReadWrite),
    };
    slices.extend(access.map(|access| Region {
        base: Base::Annotation,
        offset: 0,
        extent: Extent::Bytes(ANNOTATION_LEN as u16),
        access,
    }));
    Ok(Collecting {
        capacity: capacity as usize,
        timeout: timeout.map_or(Duration::from_micros(50), |Millis(time)| time.into()),
        bytes: bytes as usize,
        slots: slots.map(|slots| slots as usize),
        slices,
    })
}
