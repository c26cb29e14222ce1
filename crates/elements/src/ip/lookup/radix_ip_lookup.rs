//! RadixIPLookup - routes packets by a radix trie
//!
//! # Synopsis
//! `RadixIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation: the route of the longest prefix that holds the
//! address decides. Sends the packet by the route's output, and sets the annotation to the route's
//! gateway, if it has one.
//!
//! The table is a radix trie: one node of 256 branches, then nodes of 16, seven nodes at most. It is
//! small and follows changes fast; DirectIPLookup finds routes faster.
//!
//! # Arguments
//! - Routes, one an argument: a network, or an address for itself alone; perhaps a gateway, `-`
//!   being none; an output. Of several routes for one network the first counts.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one a line: network, gateway or `-`, output. A new route takes the
//!   place of the one that was removed last.
//! - `lookup` (read): the output and the gateway, if there is one, for the address that is given;
//!   -1 when there is no route.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails when its network has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails when there
//!   is none, or it is another one.
//! - `ctrl` (write): carries out `add ...`, `set ...` and `remove ...` commands, one a line; all, or
//!   none when one of them fails. Packets see the table before all commands or after them.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route's network holds the destination annotation.
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

use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

use super::radix::RadixWriter;
use super::rib::Order;
use super::routing::{
    ROUTE_TABLE, Routing, RoutingElement, flush_handler, read_handlers, routes_packets,
    write_handlers,
};

/// The element; its manual is at the top of the file.
pub struct RadixIpLookup(Routing<RadixWriter>);

register!(RadixIpLookup, "radix_ip_lookup.rs");
routes_packets!(RadixIpLookup);

impl Element for RadixIpLookup {
    const CLASS: Class = Class::new("RadixIPLookup", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let routing = Routing::configure(setup, Order::LastLeft)?;
        Ok(Self(routing.complaining(&ROUTE_TABLE)))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
    }
}

impl RoutingElement for RadixIpLookup {
    type Writer = RadixWriter;

    fn routing(&self) -> &Routing<RadixWriter> {
        &self.0
    }
}
