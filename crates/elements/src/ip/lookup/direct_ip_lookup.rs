//! DirectIPLookup - routes packets by longest prefix match in directly indexed tables (fastest)
//!
//! # Synopsis
//! `DirectIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! The tables use the DIR-24-8 scheme: most lookups read memory once, none more than twice, however many routes there
//! are. The first table needs up to 48 MiB, and less where networks have no routes. Each /24 network that contains
//! longer prefixes needs 772 bytes more. With more than 32,767 different next hops, or 32,768 such /24 networks, the
//! first table needs up to 80 MiB. The element asks the kernel for huge pages for the tables.
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
//!     -> r :: DirectIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, RangeIPLookup

use std::net::Ipv4Addr;

use millrace_core::{Class, Failed, Handlers, Setup, register};

use super::routing::{
    Lookup, LookupClass, Routing, RoutingOf, flush_handler, hashed_table_handler, write_handlers,
};
use super::tables::dir_24_8::Dir24x8Writer;
use super::tables::rib::Order;

/// The class; its manual is at the top of the file.
pub struct DirectIpLookup;

register!(Lookup<DirectIpLookup>, "direct_ip_lookup.rs");

impl LookupClass for DirectIpLookup {
    const CLASS: Class = Class::new("DirectIPLookup", "1/-", "h/h");
    type Address = Ipv4Addr;
    type Writer = Dir24x8Writer;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        Routing::configure(setup, Order::Address)
    }

    fn handlers(handlers: &mut Handlers<Lookup<Self>>) {
        hashed_table_handler(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
    }
}
