//! RangeIPLookup - routes packets by longest prefix match in compact arrays of address ranges
//!
//! # Synopsis
//! `RangeIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! The table is a directory indexed by the first 18 bits of an address, and arrays of address ranges. It needs a few
//! bytes per route, so it fits in the processor's cache. A lookup is a binary search. A small change rebuilds only the
//! arrays that it affects.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output. Their order is that of Click's hash
//!   table, which looks random.
//! - `lookup` (read): the output for the given address, and the gateway if there is one; -1 if no route matches.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails if the network already has one.
//! - `set` (write): adds a route, or replaces the network's existing one.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails if there is no such
//!   route, or if its gateway or output differ from those given.
//! - `ctrl` (write): runs `add ...`, `set ...` and `remove ...` commands, one per line. If one of them fails, none
//!   takes effect. For each address, packets see the route from either before or after all the commands.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> r :: RangeIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! DirectIPLookup, RadixIPLookup

use std::net::Ipv4Addr;

use millrace_core::{Class, Failed, Handlers, Setup, register};

use super::routing::{
    Lookup, LookupClass, Routing, RoutingOf, flush_handler, hashed_table_handler, write_handlers,
};
use super::tables::range::RangesWriter;
use super::tables::rib::Order;

/// The class; its manual is at the top of the file.
pub struct RangeIpLookup;

register!(Lookup<RangeIpLookup>, "range_ip_lookup.rs");

impl LookupClass for RangeIpLookup {
    const CLASS: Class = Class::new("RangeIPLookup", "1/-", "h/h");
    type Address = Ipv4Addr;
    type Writer = RangesWriter;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        Routing::configure(setup, Order::Address)
    }

    fn handlers(handlers: &mut Handlers<Lookup<Self>>) {
        hashed_table_handler(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
    }
}
