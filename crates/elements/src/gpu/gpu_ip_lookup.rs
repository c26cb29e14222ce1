//! GPUIPLookup - looks up IPv4 routes on the GPU
//!
//! # Synopsis
//! `GPUIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ... [, keywords CHK_ANNO, OUTPUTS])`
//!
//! # Description
//! Goes between HostToDeviceMemcpy and DeviceToHostMemcpy. Does the same as RadixIPLookup, for a whole batch at once:
//! finds the route with the longest prefix that matches a packet's destination annotation. If the route has a gateway,
//! the annotation is set to it when the packet leaves the section. A packet without a route is dropped.
//!
//! When several outputs are connected, to other GPU elements, packets leave by the route's output. When one is
//! connected, all packets leave by it, and a Dispatcher after the Debatcher separates them: `Dispatcher(rt.0, rt.1)`.
//!
//! The device has the routes as a table of all 24-bit networks (DIR-24-8), 32 MiB or more: most lookups are one load. A
//! change rewrites the addresses of its network; the device gets only the changed parts, once for a group of `ctrl`
//! commands. If the table would be larger than 256 MiB at the start, the router does not start; if later, the CPU does
//! the section's work.
//!
//! A route change applies to whole batches: all packets of a batch see the routes either before or after it. After a
//! hot swap the routes are those of the new configuration.
//!
//! # Arguments
//! - Routes, one per argument: a network, or a single address; an optional gateway, or `-` for none; an output. If
//!   there are several routes for one network, the first counts.
//! - CHK_ANNO: process only packets for which this predicate holds; others pass: `element.output`, an earlier GPU
//!   element that chose this output.
//! - OUTPUTS: how many outputs routes may name when only one is connected, 1 to 1022. Default 14: each element that
//!   decides uses some of the 32 bits of the predicate word.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output.
//! - `lookup` (read): the output, and the gateway if there is one, for the given address; -1 if there is no route.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails if its network has a route.
//! - `set` (write): adds a route, or replaces the network's route.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails if there is none, or a
//!   different one.
//! - `ctrl` (write): executes `add ...`, `set ...` and `remove ...` commands, one per line; if one of them fails, none
//!   takes effect.
//! - `flush` (write): removes all routes.
//! - `image_bytes` (read): bytes of the routes on the device.
//! - `epoch` (read): how often the routes have changed.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
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
