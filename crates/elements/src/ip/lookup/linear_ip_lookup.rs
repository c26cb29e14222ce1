//! LinearIPLookup - routes packets by longest prefix match in a plain list of routes
//!
//! # Synopsis
//! `LinearIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! Every lookup reads all routes, and every change copies the list. For more than a handful of routes, use
//! RadixIPLookup or DirectIPLookup.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output. A new route goes to the first free
//!   place.
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
//!     -> r :: LinearIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, DirectIPLookup, StaticIPLookup

use std::net::Ipv4Addr;

use millrace_core::{Class, Failed, Handlers, Setup, register};

use super::routing::{LINEAR, Lookup, LookupClass, Routing, RoutingOf, write_handlers};
use super::tables::linear::LinearWriter;
use super::tables::rib::Order;

/// The class; its manual is at the top of the file.
pub struct LinearIpLookup;

register!(Lookup<LinearIpLookup>, "linear_ip_lookup.rs");

impl LookupClass for LinearIpLookup {
    const CLASS: Class = Class::new("LinearIPLookup", "1/-", "h/h");
    type Address = Ipv4Addr;
    type Writer = LinearWriter;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        let routing = Routing::configure(setup, Order::FirstFree)?;
        Ok(routing.complaining(&LINEAR))
    }

    fn handlers(handlers: &mut Handlers<Lookup<Self>>) {
        write_handlers(handlers);
    }
}
