//! GPUIPLookup - looks routes up on the device
//!
//! # Synopsis
//! `GPUIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ... [, keywords CHK_ANNO, OUTPUTS])`
//!
//! # Description
//! Stands between HostToDeviceMemcpy and DeviceToHostMemcpy. Does what RadixIPLookup does, for a whole batch at once: the
//! route of the longest prefix that holds a packet's destination annotation decides. The annotation becomes the route's
//! gateway, if it has one, when the packet leaves the section. A packet without a route is dropped.
//!
//! With several outputs connected, to other GPU elements, packets go by the route's output. With one, all go on by it,
//! and a Dispatcher after the Debatcher parts them: `Dispatcher(rt.0, rt.1)`.
//!
//! The device has the routes as a table of all networks of 24 bits (DIR-24-8), 32 MiB and more: most lookups are one
//! load. A change paints the addresses of its network; the device gets what has changed, of a group of changes by `ctrl` once. While
//! the table would be larger than 256 MiB, the CPU does the section's work; a router does not start so.
//!
//! Packets see the routes before a change or after it, all packets of a batch the same. After a hot swap the routes are those
//! of the new configuration.
//!
//! # Arguments
//! - Routes, one an argument: a network, or an address for itself alone; perhaps a gateway, `-` being none; an
//!   output. Of several routes for one network the first counts.
//! - CHK_ANNO: treats only packets for which this holds, others pass: `element.output`, a GPU element before this one
//!   that decided for this output.
//! - OUTPUTS: how many outputs routes may name when one is connected, 1 to 1022. Default 14: each
//!   element that decides has some of the 32 bits of the predicate word.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one a line: network, gateway or `-`, output.
//! - `lookup` (read): the output and the gateway, if there is one, for the address that is given; -1 when there is
//!   no route.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails when its network has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails when there is none, or it
//!   is another one.
//! - `ctrl` (write): carries out `add ...`, `set ...` and `remove ...` commands, one a line; all, or none when one of
//!   them fails.
//! - `flush` (write): removes all routes.
//! - `image_bytes` (read): bytes of the routes on the device.
//! - `epoch` (read): how often the routes have changed.
//!
//! # Drops
//! - no route: no route's network holds the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 1)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(rt.0, rt.1);
//! d [0] -> Discard;
//! d [1] -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, Dispatcher, Batcher

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use millrace_core::{Class, register};
use millrace_gpu::kernel::{DROP, Kernel};
use millrace_gpu::table::{Decisions, Lpm4, Route, TableError};

use super::lookup::{Family, GpuLookup, Image, Step};
use crate::ip::lookup::{Order, PoptrieWriter};

/// The element; its manual is at the top of the file.
pub type GpuIpLookup = GpuLookup<Ipv4Addr>;

register!(GpuIpLookup, "gpu_ip_lookup.rs");

impl Family for Ipv4Addr {
    const CLASS: Class = Class::new("GPUIPLookup", "1/1-", "h/h");
    const ORDER: Order = Order::LastLeft;
    const KERNEL: Kernel = Kernel::Lpm4;
    type Writer = PoptrieWriter;
    type Image = Lpm4;
}

impl Image<Ipv4Addr> for Lpm4 {
    fn build(routes: &[Route<u32>], outputs: &[u32]) -> Result<Self, TableError> {
        Lpm4::build(routes.iter().copied(), Decisions { hops: outputs, miss: DROP })
    }

    fn words(&self) -> &Arc<Vec<u32>> {
        Lpm4::words(self)
    }

    fn take_changes(&mut self) -> Vec<Range<usize>> {
        Lpm4::take_changes(self)
    }

    fn update(&mut self, changes: &[Step<Ipv4Addr>], outputs: &[u32]) -> bool {
        let mut known = (0u32..).zip(outputs);
        known.all(|(hop, &output)| self.set_output(hop, output).is_ok())
            && changes.iter().all(|&Step { bits: prefix, length, hop }| match hop {
                Some(hop) => self.insert(Route { prefix, length, hop }).is_ok(),
                None => self.remove(prefix, length).is_ok(),
            })
    }
}
