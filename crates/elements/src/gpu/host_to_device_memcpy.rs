//! HostToDeviceMemcpy - begins what is done on the device
//!
//! # Synopsis
//! `HostToDeviceMemcpy()`
//!
//! # Description
//! Stands between Batcher, or Balancer, and the GPU elements: what they ask for of each packet is copied to
//! the device here, once for all of them. That is the union of their slices, column by column: an address that
//! two elements read is copied once, and of a packet that nobody reads the payload of, no payload is. Packets
//! that are shorter than a slice have zeros in it and are known to be short; nothing of another packet is ever
//! there.
//!
//! The copies, the elements' work and the copy back are one submission to the device for each batch, and
//! packets stay where they are: with the thread that they came on.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `plan` (read): what is done with each batch: columns with the way that they are copied, launches with the
//!   packets that they treat.
//! - `bytes` (read): bytes a packet that are copied to the device, payload left out.
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
