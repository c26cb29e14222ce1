//! GPUIP6Lookup - looks up IPv6 routes on the GPU
//!
//! # Synopsis
//! `GPUIP6Lookup(DST/LEN [GATEWAY] OUTPUT, ... [, keywords CHK_ANNO, OUTPUTS])`
//!
//! # Description
//! Goes between HostToDeviceMemcpy and DeviceToHostMemcpy. Does the same as LookupIP6Route, for a whole batch at once:
//! finds the route with the longest prefix that matches a packet's IPv6 destination annotation. If the route has a
//! gateway, the annotation is set to it when the packet leaves the section. A packet without a route is dropped.
//!
//! When several outputs are connected, to other GPU elements, packets leave by the route's output. When one is
//! connected, all packets leave by it, and a Dispatcher after the Debatcher separates them: `Dispatcher(rt.0, rt.1)`.
//!
//! The device has the routes as a byte trie, a few megabytes for the Internet's routes; each change builds a new one.
//! If it would be larger than 256 MiB at the start, the router does not start; if later, the CPU does the section's
//! work.
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
//! - `add` (write): adds a route, `DST/LEN [GATEWAY] OUTPUT`. Fails if its network has a route.
//! - `set` (write): adds a route, or replaces the network's route.
//! - `remove` (write): removes the route of a network, `DST/LEN [GATEWAY OUTPUT]`. Fails if there is none, or a
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
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 1000)
//!     -> CheckIP6Header
//!     -> GetIP6Address(24)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIP6Lookup(2001:db8::/32 fe80::1 0, 2001:db8:1::/48 1)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(rt.0, rt.1);
//! d [0] -> Discard;
//! d [1] -> Discard;
//! ```
//!
//! # See also
//! LookupIP6Route, Dispatcher, Batcher

use std::iter;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::sync::Arc;

use millrace_core::{Class, register};
use millrace_gpu::kernel::{DROP, Kernel};
use millrace_gpu::table::{Decisions, Lpm6, Route, TableError};

use super::lookup::{Family, GpuLookup, Image, Step};
use crate::ip::lookup::Order;
use crate::ip6::lookup::TreeWriter;

/// The element; its manual is at the top of the file.
pub type GpuIp6Lookup = GpuLookup<Ipv6Addr>;

register!(GpuIp6Lookup, "gpu_ip6_lookup.rs");

impl Family for Ipv6Addr {
    const CLASS: Class = Class::new("GPUIP6Lookup", "1/1-", "h/h");
    const ORDER: Order = Order::FirstFree;
    const KERNEL: Kernel = Kernel::Lpm6;
    type Writer = TreeWriter;
    type Image = Lpm6;
}

impl Image<Ipv6Addr> for Lpm6 {
    fn build(routes: &[Route<u128>], outputs: &[u32]) -> Result<Self, TableError> {
        Lpm6::build(routes.iter().copied(), Decisions { hops: outputs, miss: DROP })
    }

    fn words(&self) -> &Arc<Vec<u32>> {
        Lpm6::words(self)
    }

    fn take_changes(&mut self) -> Vec<Range<usize>> {
        // It is rebuilt each time.
        iter::once(0..self.words().len()).collect()
    }

    fn update(&mut self, _: &[Step<Ipv6Addr>], _: &[u32]) -> bool {
        false
    }
}
