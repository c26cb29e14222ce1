//! LookupIP6Route - routes IPv6 packets by longest prefix match
//!
//! # Synopsis
//! `LookupIP6Route(DST/LEN [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's IPv6 destination annotation in a routing table. The route with the longest matching prefix
//! wins. Sends the packet to the route's output, and sets the annotation to the route's gateway, if it has one.
//!
//! The table is an array-based tree small enough for the processor's cache, and the packets of a batch are looked up in
//! parallel. Each change builds a new tree, so packets never wait for a change. A group of changes through `ctrl` costs
//! as much as one change.
//!
//! # Arguments
//! - Routes, one per argument: a network, or a single address; an optional gateway, where `-` or `::` means none; an
//!   output. If several routes have the same network, the first counts.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output. They are listed in the order they were
//!   added; a new route takes the first free place.
//! - `lookup` (read): the output and the gateway, if there is one, for the given address; -1 if there is no route.
//! - `add` (write): adds a route, `DST/LEN [GATEWAY] OUTPUT`. Fails if its network already has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `DST/LEN [GATEWAY OUTPUT]`. Fails if the network has no route,
//!   or if its route does not match.
//! - `ctrl` (write): executes `add ...`, `set ...` and `remove ...` commands, one per line; if one fails, none takes
//!   effect. Packets see the table either before all commands or after them.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route's network contains the destination annotation.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> CheckIP6Header
//!     -> GetIP6Address(24)
//!     -> r :: LookupIP6Route(2001:db8::/32 fe80::1 0, 2001:db8:1::/48 0, ::/0 1);
//! r [0] -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! # See also
//! GetIP6Address, CheckIP6Header, DirectIPLookup

use std::net::Ipv6Addr;

use millrace_core::{Class, Failed, Handlers, Setup, register};

use super::tree::TreeWriter;
use crate::ip::lookup::Order;
use crate::ip::lookup::routing::{
    Lookup, LookupClass, Routing, RoutingOf, flush_handler, write_handlers,
};

/// The class; its manual is at the top of the file.
pub struct LookupIp6Route;

register!(Lookup<LookupIp6Route>, "lookup_ip6_route.rs");

impl LookupClass for LookupIp6Route {
    const CLASS: Class = Class::new("LookupIP6Route", "1/-", "h/h");
    type Address = Ipv6Addr;
    type Writer = TreeWriter;

    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed> {
        Routing::configure(setup, Order::FirstFree)
    }

    fn handlers(handlers: &mut Handlers<Lookup<Self>>) {
        write_handlers(handlers);
        flush_handler(handlers);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    fn packet(destination: &str) -> Packet {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_dst_ip6(destination.parse().unwrap());
        packet
    }

    fn lookup(rig: &Rig, address: &str) -> String {
        let read = rig.router().read("x.lookup", address.as_bytes());
        String::from_utf8(read.unwrap()).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let routes =
            "2001:db8::/32 1, 2001:db8:1::/48 fe80::1 0, 2001:db8:1::7 2, 2001:db8:1::/80 - 1";
        let mut rig = Rig::new(&format!("LookupIP6Route({routes})"), 1, 3).unwrap();
        let destinations =
            ["2001:db8:1::7", "2001:db8:2::", "::1", "2001:db8:1:1::", "2001:db8:1::8"];
        let out = rig.push_packets(0, destinations.map(packet).into());
        let destinations: Vec<Vec<String>> = out
            .iter()
            .map(|port| port.iter().map(|packet| packet.dst_ip6().to_string()).collect())
            .collect();
        assert_eq!(
            destinations,
            [vec!["fe80::1"], vec!["2001:db8:2::", "2001:db8:1::8"], vec!["2001:db8:1::7"]]
        );
        assert_eq!(rig.stats().drops, [(Reason::NoRoute, 1)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn routes_can_be_added_and_removed() {
        let mut rig = Rig::new("LookupIP6Route", 1, 3).unwrap();
        let steps = [
            ("add", "2001:db8::/32 fe80::1 0", "0 fe80::1"),
            ("add", "2001:db8::/48 ::0 1", "1"),
            ("add", "2001:db8::4/127 2", "2"),
            ("remove", "2001:db8::/48 - 1", "2"),
            ("remove", "2001:db8::4/127", "0 fe80::1"),
            ("set", "2001:db8::/32 1", "1"),
            ("ctrl", "remove 2001:db8::/32\nadd ::/0 fe80::2 2", "2 fe80::2"),
            ("remove", "::0/0", "-1"),
        ];
        for (handler, text, found) in steps {
            rig.write(handler, text).unwrap();
            assert_eq!(lookup(&rig, "2001:db8::5"), found, "{handler} {text}");
        }
    }

    #[test]
    fn the_table_can_be_listed_and_flushed() {
        let routes = "::/0 fe80::1 0, 2001:db8:aaaa::/48 0, 2001:db8::/32 0";
        let mut rig = Rig::new(&format!("LookupIP6Route({routes})"), 1, 1).unwrap();
        rig.write("remove", "2001:db8:aaaa::/48").unwrap();
        rig.write("add", "2001:db8:bbbb::/48 0").unwrap();
        assert_eq!(
            rig.read("table").unwrap(),
            "::/0\t\tfe80::1\t\t0\n2001:db8:bbbb::/48\t-\t\t0\n2001:db8::/32\t\t-\t\t0\n"
        );
        rig.write("flush", "").unwrap();
        assert_eq!(rig.read("table").unwrap(), "");
        assert_eq!(lookup(&rig, "::1"), "-1");
    }

    #[test]
    fn failed_commands_report_the_cause() {
        let mut rig = Rig::new("LookupIP6Route(2001:db8::/32 fe80::4 0)", 1, 1).unwrap();
        for (handler, text, message) in [
            ("add", "2001:db8::/32 0", "conflict with existing route ‘2001:db8::/32 fe80::4 0’"),
            ("remove", "2001:db8::/33", "route ‘2001:db8::/33 - -1’ not found"),
            ("remove", "2001:db8::/32 0", "route ‘2001:db8::/32 - 0’ not found"),
            ("add", "2001:db9::/32 1", "bad OUTPUT"),
            ("set", "2001:db8::/32", "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"),
            ("add", "10.0.0.0/8 0", "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"),
            ("ctrl", "flush", "bad command ‘flush’"),
        ] {
            let error = rig.write(handler, text).unwrap_err();
            assert_eq!(error.to_string(), message, "{handler} {text}");
        }
        let error = rig.router().read("x.lookup", b"10.0.0.1").unwrap_err();
        assert_eq!(error.to_string(), "expected IPv6 address");
        assert!(Rig::new("LookupIP6Route(2001:db8::/32 1)", 1, 1).is_err());
    }
}
