//! LinearIPLookup - routes packets by a list of routes
//!
//! # Synopsis
//! `LinearIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation: the route of the longest prefix that holds the
//! address decides. Sends the packet by the route's output, and sets the annotation to the route's
//! gateway, if it has one.
//!
//! Every lookup reads all routes, and every change makes another list. For more than a handful of
//! routes take RadixIPLookup or DirectIPLookup.
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
//!   first place that is free.
//! - `lookup` (read): the output and the gateway, if there is one, for the address that is given;
//!   -1 when there is no route.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails when its network has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails when there
//!   is none, or it is another one.
//! - `ctrl` (write): carries out `add ...`, `set ...` and `remove ...` commands, one a line; all, or
//!   none when one of them fails. Packets see the table before all commands or after them.
//!
//! # Drops
//! - no route: no route's network holds the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> r :: LinearIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, DirectIPLookup, StaticIPLookup

use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

use super::linear::LinearWriter;
use super::rib::Order;
use super::routing::{
    LINEAR, Routing, RoutingElement, read_handlers, routes_packets, write_handlers,
};

/// The element; its manual is at the top of the file.
pub struct LinearIpLookup(Routing<LinearWriter>);

register!(LinearIpLookup, "linear_ip_lookup.rs");
routes_packets!(LinearIpLookup);

impl Element for LinearIpLookup {
    const CLASS: Class = Class::new("LinearIPLookup", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let routing = Routing::configure(setup, Order::FirstFree)?;
        Ok(Self(routing.complaining(&LINEAR)))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        write_handlers(handlers);
    }
}

impl RoutingElement for LinearIpLookup {
    type Writer = LinearWriter;

    fn routing(&self) -> &Routing<LinearWriter> {
        &self.0
    }
}
