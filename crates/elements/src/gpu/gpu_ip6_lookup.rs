//! GPUIP6Lookup - looks routes of IPv6 up on the device
//!
//! # Synopsis
//! `GPUIP6Lookup(DST/LEN [GATEWAY] OUTPUT, ... [, keywords CHK_ANNO, OUTPUTS])`
//!
//! # Description
//! Stands between HostToDeviceMemcpy and DeviceToHostMemcpy. Does what LookupIP6Route does, for a whole batch at once: the
//! route of the longest prefix that holds a packet's IPv6 destination annotation decides. The annotation becomes the route's
//! gateway, if it has one, when the packet leaves the section. A packet without a route is dropped.
//!
//! With several outputs connected, to other GPU elements, packets go by the route's output. With one, all go on by it,
//! and a Dispatcher after the Debatcher parts them: `Dispatcher(rt.0, rt.1)`.
//!
//! The device has the routes as a trie of bytes, some megabytes for the Internet's; a change makes another one. While it
//! would be larger than 256 MiB, the CPU does the section's work; a router does not start so.
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
//! - `add` (write): adds a route, `DST/LEN [GATEWAY] OUTPUT`. Fails when its network has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `DST/LEN [GATEWAY OUTPUT]`. Fails when there is none, or it
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
        // It is made anew each time.
        iter::once(0..self.words().len()).collect()
    }

    fn update(&mut self, _: &[Step<Ipv6Addr>], _: &[u32]) -> bool {
        false
    }
}
