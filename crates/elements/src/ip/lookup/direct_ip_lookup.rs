//! DirectIPLookup - routes packets by directly indexed tables, the fastest way
//!
//! # Synopsis
//! `DirectIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation: the route of the longest prefix that holds the
//! address decides. Sends the packet by the route's output, and sets the annotation to the route's
//! gateway, if it has one.
//!
//! The tables are those of DIR-24-8: most lookups read memory once, none more than twice, however
//! many routes there are. That takes up to 48 MiB, less where networks have no routes, and more from
//! 32,768 different next hops, or as many networks of 24 bits with longer prefixes within. The kernel is asked for
//! huge pages under the tables.
//!
//! # Arguments
//! - Routes, one an argument: a network, or an address for itself alone; perhaps a gateway, `-`
//!   being none; an output. Of several routes for one network the first counts.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one a line: network, gateway or `-`, output. They stand in the
//!   order of Click's hash table, which looks random.
//! - `lookup` (read): the output and the gateway, if there is one, for the address that is given;
//!   -1 when there is no route.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails when its network has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails when there
//!   is none, or it is another one.
//! - `ctrl` (write): carries out `add ...`, `set ...` and `remove ...` commands, one a line; all, or
//!   none when one of them fails. Packets see, for each address, the route before all commands or
//!   the one after them.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route's network holds the destination annotation.
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

use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

use super::dir_24_8::Dir24x8Writer;
use super::rib::Order;
use super::routing::{
    Routing, RoutingElement, flush_handler, hashed_table_handler, read_handlers, routes_packets,
    write_handlers,
};

/// The element; its manual is at the top of the file.
pub struct DirectIpLookup(Routing<Dir24x8Writer>);

register!(DirectIpLookup, "direct_ip_lookup.rs");
routes_packets!(DirectIpLookup);

impl Element for DirectIpLookup {
    const CLASS: Class = Class::new("DirectIPLookup", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Routing::configure(setup, Order::Address).map(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        hashed_table_handler(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
    }
}

impl RoutingElement for DirectIpLookup {
    type Writer = Dir24x8Writer;

    fn routing(&self) -> &Routing<Dir24x8Writer> {
        &self.0
    }
}
