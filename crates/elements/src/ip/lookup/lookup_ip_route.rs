//! LookupIPRoute - routes packets by longest prefix match; the routing table of old configurations
//!
//! # Synopsis
//! `LookupIPRoute(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! This is the old name of StaticIPLookup. LookupIPRoute2 and LookupIPRouteMP are synonyms. Lookups use a radix trie.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output, in the order of the arguments.
//! - `lookup` (read): the output for the given address, and the gateway if there is one; -1 if no route matches.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> r :: LookupIPRoute(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 0, 0/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! StaticIPLookup, RadixIPLookup, DirectIPLookup

use std::sync::Arc;

use millrace_core::{Class, Element, Failed, Handlers, Offers, Setup, register};

use super::RouteLookup;
use super::direct_ip_lookup::{
    ROUTE_TABLE, Routing, RoutingElement, read_handlers, routes_packets,
};
use super::tables::radix::RadixWriter;
use super::tables::rib::Order;

/// The element; its manual is at the top of the file.
pub struct LookupIpRoute(Routing<RadixWriter>);

register!(LookupIpRoute, "lookup_ip_route.rs");
routes_packets!(LookupIpRoute);

impl Element for LookupIpRoute {
    const CLASS: Class =
        Class::new("LookupIPRoute", "1/-", "h/h").aliases(&["LookupIPRoute2", "LookupIPRouteMP"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let routing = Routing::configure(setup, Order::LastLeft)?;
        Ok(Self(routing.complaining(&ROUTE_TABLE)))
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
    }
}

impl RoutingElement for LookupIpRoute {
    type Writer = RadixWriter;

    fn routing(&self) -> &Routing<RadixWriter> {
        &self.0
    }
}
