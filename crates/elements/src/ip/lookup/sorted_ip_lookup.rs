//! SortedIPLookup - routes packets by longest prefix match in a sorted list of routes
//!
//! # Synopsis
//! `SortedIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! Like LinearIPLookup, but each route precedes the routes whose networks contain its own, so a lookup stops at the
//! first matching route. Deprecated in Click; use RadixIPLookup or DirectIPLookup.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output, in the order of the search.
//! - `lookup` (read): the output for the given address, and the gateway if there is one; -1 if no route matches.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails if the network already has one.
//! - `set` (write): adds a route, or replaces the network's existing one.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails if there is no such
//!   route, or if its gateway or output differ from those given.
//! - `ctrl` (write): runs `add ...`, `set ...` and `remove ...` commands, one per line. If one of them fails, none
//!   takes effect. Packets see the table from either before or after all the commands.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> r :: SortedIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! LinearIPLookup, RadixIPLookup

use std::sync::Arc;

use millrace_core::{Class, Element, Failed, Handlers, Offers, Setup, register};

use super::RouteLookup;
use super::direct_ip_lookup::{
    LINEAR, Routing, RoutingElement, read_handlers, routes_packets, sorted_table_handler,
    write_handlers,
};
use super::tables::linear::SortedWriter;
use super::tables::rib::Order;

/// The element; its manual is at the top of the file.
pub struct SortedIpLookup(Routing<SortedWriter>);

register!(SortedIpLookup, "sorted_ip_lookup.rs");
routes_packets!(SortedIpLookup);

impl Element for SortedIpLookup {
    const CLASS: Class = Class::new("SortedIPLookup", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let advice = "SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead";
        setup.args.warn((), advice);
        let routing = Routing::configure(setup, Order::FirstFree)?;
        Ok(Self(routing.complaining(&LINEAR)))
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        sorted_table_handler(handlers);
        write_handlers(handlers);
    }
}

impl RoutingElement for SortedIpLookup {
    type Writer = SortedWriter;

    fn routing(&self) -> &Routing<SortedWriter> {
        &self.0
    }
}
