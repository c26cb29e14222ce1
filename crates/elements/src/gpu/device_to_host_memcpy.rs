//! DeviceToHostMemcpy - copies the results of GPU elements back to the host
//!
//! # Synopsis
//! `DeviceToHostMemcpy()`
//!
//! # Description
//! Follows the last GPU element, and joins all branches of the section: the results and decisions of each element, and
//! the slices that any of them wrote, are copied back here. Only the blocks of 256 packets that the batch uses are
//! copied, not its full capacity.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, which any number of elements may connect to; one push output.
//!
//! # Handlers
//! - `bytes` (read): bytes copied from the device per packet.
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
//! HostToDeviceMemcpy, GPUCompletionQueue

use millrace_core::{Class, Element, Failed, Handlers, Inspection, Setup, register};

use super::section::book::Member;
use super::section::role::Role;

/// The element; its manual is at the top of the file.
pub struct DeviceToHostMemcpy(Member);

register!(DeviceToHostMemcpy, "device_to_host_memcpy.rs");

impl Element for DeviceToHostMemcpy {
    const CLASS: Class = Class::new("DeviceToHostMemcpy", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(Member::enter(setup, Role::ToHost)))
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.0.inspect(inspection);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("bytes", |element, _| {
            let unit = element.0.unit();
            unit.map_or(0, |unit| unit.section.plan().bytes_a_packet().1)
        });
    }
}
