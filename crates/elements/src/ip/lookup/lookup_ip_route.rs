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

use std::net::Ipv4Addr;

use millrace_core::{Class, Failed, Setup, register};

use super::routing::{Lookup, LookupClass, ROUTE_TABLE, Routing, RoutingOf};
use super::tables::radix::RadixWriter;
use super::tables::rib::Order;

/// The class; its manual is at the top of the file.
pub struct LookupIpRoute;

register!(Lookup<LookupIpRoute>, "lookup_ip_route.rs");

impl LookupClass for LookupIpRoute {
    const CLASS: Class =
        Class::new("LookupIPRoute", "1/-", "h/h").aliases(&["LookupIPRoute2", "LookupIPRouteMP"]);
    type Address = Ipv4Addr;
    type Writer = RadixWriter;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        let routing = Routing::configure(setup, Order::LastLeft)?;
        Ok(routing.complaining(&ROUTE_TABLE))
    }
}
