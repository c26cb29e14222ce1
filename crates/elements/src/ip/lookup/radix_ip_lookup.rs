//! RadixIPLookup - routes packets by longest prefix match in a radix trie
//!
//! # Synopsis
//! `RadixIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! The table is a radix trie: a root node with 256 branches, then nodes with 16 branches, at most seven levels in all.
//! It is small and changes are fast; lookups in DirectIPLookup are faster.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output. A new route takes the place of the most
//!   recently removed one.
//! - `lookup` (read): the output for the given address, and the gateway if there is one; -1 if no route matches.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails if the network already has one.
//! - `set` (write): adds a route, or replaces the network's existing one.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails if there is no such
//!   route, or if its gateway or output differ from those given.
//! - `ctrl` (write): runs `add ...`, `set ...` and `remove ...` commands, one per line. If one of them fails, none
//!   takes effect. Packets see the table from either before or after all the commands.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> r :: RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! DirectIPLookup, RangeIPLookup, LinearIPLookup

use std::net::Ipv4Addr;

use millrace_core::{Class, Failed, Handlers, Setup, register};

use super::routing::{
    Lookup, LookupClass, ROUTE_TABLE, Routing, RoutingOf, flush_handler, write_handlers,
};
use super::tables::radix::RadixWriter;
use super::tables::rib::Order;

/// The class; its manual is at the top of the file.
pub struct RadixIpLookup;

register!(Lookup<RadixIpLookup>, "radix_ip_lookup.rs");

impl LookupClass for RadixIpLookup {
    const CLASS: Class = Class::new("RadixIPLookup", "1/-", "h/h");
    type Address = Ipv4Addr;
    type Writer = RadixWriter;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        let routing = Routing::configure(setup, Order::LastLeft)?;
        Ok(routing.complaining(&ROUTE_TABLE))
    }

    fn handlers(handlers: &mut Handlers<Lookup<Self>>) {
        write_handlers(handlers);
        flush_handler(handlers);
    }
}
