//! HostToDeviceMemcpy - copies the slices that GPU elements need to the device
//!
//! # Synopsis
//! `HostToDeviceMemcpy()`
//!
//! # Description
//! Goes between Batcher, or Balancer, and the GPU elements. Copies the parts of each packet that they need to the
//! device, once for all of them. That is the union of their slices, column by column: an address that two elements read
//! is copied once, and payloads are copied only if an element reads them. If a packet is shorter than a slice, the rest
//! of the slice is zero and the packet is known to be short; a slice never holds bytes of another packet.
//!
//! The copies, the elements' work and the copy back are one submission to the device for each batch. Packets stay on
//! the thread on which they arrived.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `plan` (read): the plan for each batch: columns and how they are copied, launches and the packets that they
//!   process.
//! - `bytes` (read): bytes copied to the device per packet, without payload.
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
//!     -> GPUIPLookup(2.0.0.0/8 1.0.0.254 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> Discard;
//! ```
//!
//! # See also
//! Batcher, DeviceToHostMemcpy, GPURuntime

use millrace_core::{Class, Element, Failed, Handlers, Inspection, Setup, register};

use super::section::book::Member;
use super::section::role::Role;

/// The element; its manual is at the top of the file.
pub struct HostToDeviceMemcpy(Member);

register!(HostToDeviceMemcpy, "host_to_device_memcpy.rs");

impl Element for HostToDeviceMemcpy {
    const CLASS: Class = Class::new("HostToDeviceMemcpy", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(Member::enter(setup, Role::ToDevice)))
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.0.inspect(inspection);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("plan", |element, _| {
            let unit = element.0.unit();
            unit.map(|unit| unit.section.plan().to_string()).unwrap_or_default()
        });
        handlers.read("bytes", |element, _| {
            let unit = element.0.unit();
            unit.map_or(0, |unit| unit.section.plan().bytes_a_packet().0)
        });
    }
}
