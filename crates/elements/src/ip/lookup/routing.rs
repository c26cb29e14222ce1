//! The common part of the routing elements: arguments, handlers and the routing of packets.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::ArgText;
use millrace_core::{
    Call, Context, Element, Failed, HandlerError, Handlers, Moment, Packet, Reason, Setup, View,
    Way,
};

use super::address::Address;
use super::command::{Command, Syntax, Verb};
use super::error::Error;
use super::fib::FibWriter;
use super::linear::sorted;
use super::rib::Order;
use super::route::{Hop, Route, RouteLookup};
use super::table::RouteTable;

/// The routing table of an element, and the element's outputs.
pub(crate) struct Routing<W: FibWriter<A>, A: Address = Ipv4Addr> {
    table: RouteTable<W, A>,
    outputs: usize,
    complaint: Option<&'static Complaint>,
}

/// The message for the first packets without a route, limited for the whole program.
pub(crate) struct Complaint {
    /// The prefix of the message.
    pub(crate) speaker: &'static str,
    pub(crate) times: AtomicU32,
}

impl Complaint {
    const MOST: u32 = 5;

    const fn by(speaker: &'static str) -> Self {
        Self { speaker, times: AtomicU32::new(0) }
    }

    #[cold]
    fn make<A: Address>(&self, cx: &Context, address: A) {
        if self.times.load(Relaxed) < Self::MOST && self.times.fetch_add(1, Relaxed) < Self::MOST {
            cx.router().chatter(&format!("{}: no route for {address}", self.speaker));
        }
    }
}

/// The message of RadixIPLookup and LookupIPRoute.
pub(super) static ROUTE_TABLE: Complaint = Complaint::by("IPRouteTable");

/// The message of the classes that try one route after the other.
pub(super) static LINEAR: Complaint = Complaint::by("LinearIPLookup");

/// An element that routes packets by a table.
pub(crate) trait RoutingElement<A: Address = Ipv4Addr>: Element {
    /// The structure in which it looks up addresses.
    type Writer: FibWriter<A>;

    fn routing(&self) -> &Routing<Self::Writer, A>;

    /// Applies a handler's commands, all or none.
    ///
    /// # Errors
    /// A command fails.
    fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        self.routing().table.apply(commands)
    }

    /// Removes all routes, for a handler.
    ///
    /// # Errors
    /// There is not enough memory.
    fn flush(&self) -> Result<(), Error<A>> {
        self.routing().table.flush()
    }
}

/// Makes an element route packets one by one, using the [`Routing`] in its field 0.
macro_rules! routes_packets {
    ($element:ty) => {
        impl millrace_core::PerPacket for $element {
            const ROUTES: bool = true;

            #[inline(always)]
            fn treat(
                &self,
                (): &mut (),
                packet: &mut millrace_core::View,
                at: &mut millrace_core::Moment,
            ) -> millrace_core::Way {
                self.0.treat(packet, at)
            }

            fn aside(
                &self,
                cx: &mut millrace_core::Context,
                (): &mut (),
                packet: millrace_core::Packet,
                way: millrace_core::Way,
            ) -> Option<millrace_core::Packet> {
                self.0.reject(cx, packet, way)
            }
        }
    };
}

pub(crate) use routes_packets;

impl<W: FibWriter<A>, A: Address> Routing<W, A> {
    /// Reads routes, one per argument, into a table that lists them in the given order.
    ///
    /// # Errors
    /// An argument is not a route, or there is not enough memory for the table.
    pub(crate) fn configure(setup: &mut Setup<'_>, order: Order) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        Self::configure_for(setup, order, outputs)
    }

    /// Does the same for the given number of outputs.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub(crate) fn configure_for(
        setup: &mut Setup<'_>,
        order: Order,
        outputs: usize,
    ) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let texts = args.rest();
        let syntax = Syntax { scope: *args.scope(), outputs };
        let mut routes: Vec<Route<A>> = Vec::with_capacity(texts.len());
        for (number, text) in (1..).zip(&texts) {
            match syntax.route(text) {
                Ok(route) => routes.push(route),
                Err(error) => args.error(text, error.of_argument(number)),
            }
        }
        args.complete()?;
        let table = RouteTable::new(order).and_then(|table| Ok((table.load(&routes)?, table)));
        match table {
            Ok((left_out, table)) => {
                match left_out.len() {
                    0 => {}
                    1 => args.warn((), "1 route replaced by later versions"),
                    n => args.warn((), format!("{n} routes replaced by later versions")),
                }
                Ok(Self { table, outputs, complaint: None })
            }
            Err(error) => {
                args.error((), error.to_string());
                Err(Failed)
            }
        }
    }

    /// Returns the same routing, with a message for the first packets without a route.
    pub(super) fn complaining(self, complaint: &'static Complaint) -> Self {
        Self { complaint: Some(complaint), ..self }
    }

    /// Returns the output to which the route of a packet's destination annotation leads. If the route has a gateway,
    /// sets the annotation to it.
    #[inline(always)]
    pub(crate) fn treat(&self, packet: &mut View, at: &Moment) -> Way {
        match self.table.hop_of(A::destination(packet.annotations()).to_bits(), at) {
            Some(hop) => {
                if hop.has_gateway() {
                    hop.gateway.set_destination(packet.annotations_mut());
                }
                // The table holds only outputs that the element has.
                Way::output(hop.port as u16)
            }
            None => Way::drop(Reason::NoRoute),
        }
    }

    /// Drops a packet that has no route, or whose output is not connected.
    pub(crate) fn reject(&self, cx: &mut Context, packet: Packet, way: Way) -> Option<Packet> {
        if let Some(complaint) = self.complaint.filter(|_| way.reason() == Reason::NoRoute) {
            complaint.make(cx, A::destination(packet.annotations()));
        }
        cx.send_or_drop(packet, way)
    }

    fn syntax<'a>(&self, call: &'a Call<'_>) -> Syntax<'a> {
        Syntax { scope: call.scope(), outputs: self.outputs }
    }

    /// The routing table.
    pub(crate) fn table(&self) -> &RouteTable<W, A> {
        &self.table
    }

    fn lookup(&self, call: &Call<'_>) -> Result<String, HandlerError> {
        let address = A::parse(&ArgText::from(&*call.text()), &call.scope());
        let address = address.map_err(|_| format!("expected {}", A::NAME))?;
        Ok(match self.table.lookup(address.to_bits()) {
            None => "-1".to_owned(),
            Some(hop) if hop.has_gateway() => format!("{} {}", hop.port, hop.gateway),
            Some(hop) => hop.port.to_string(),
        })
    }
}

impl<E: RoutingElement<A>, A: Address> RouteLookup<A> for E {
    fn hop(&self, address: A) -> Option<Hop<A>> {
        self.routing().table.lookup(address.to_bits())
    }
}

/// The handlers `table` and `lookup`.
pub(crate) fn read_handlers<E: RoutingElement<A>, A: Address>(handlers: &mut Handlers<E>) {
    handlers.read("table", |element, _| rows(&element.routing().table.routes()));
    handlers.try_read("lookup", |element, call| element.routing().lookup(call));
}

/// The handler `table` of a class in which each route precedes those whose networks contain its own.
pub(super) fn sorted_table_handler<E: RoutingElement>(handlers: &mut Handlers<E>) {
    handlers.read("table", |element, _| rows(&element.routing().table.routes_by(sorted)));
}

/// The handler `table` of a class that lists routes in the order of [`Prefix::click_hash`].
pub(super) fn hashed_table_handler<E: RoutingElement>(handlers: &mut Handlers<E>) {
    handlers.read("table", |element, _| {
        let mut routes = element.routing().table.routes();
        routes.sort_by_key(|route| route.prefix.click_hash());
        rows(&routes)
    });
}

/// The handlers `add`, `set`, `remove` and `ctrl`.
pub(crate) fn write_handlers<E: RoutingElement<A>, A: Address>(handlers: &mut Handlers<E>) {
    for (name, verb) in [("add", Verb::Add), ("set", Verb::Set), ("remove", Verb::Remove)] {
        handlers.write(name, move |element, call| {
            let text = ArgText::from(&*call.text());
            let command = element.routing().syntax(call).command(verb, &text);
            let result = command.and_then(|command| element.apply(&[command]));
            result.map_err(|error| error.to_string().into())
        });
    }
    handlers.write("ctrl", |element, call| {
        let commands = element.routing().syntax(call).commands(&call.text());
        let result = commands.and_then(|commands| element.apply(&commands));
        result.map_err(|error| error.to_string().into())
    });
}

/// The handler `flush`.
pub(crate) fn flush_handler<E: RoutingElement<A>, A: Address>(handlers: &mut Handlers<E>) {
    handlers.write("flush", |element, _| element.flush().map_err(|error| error.to_string().into()));
}

fn rows<A: Address>(routes: &[Route<A>]) -> String {
    let mut rows = String::new();
    for route in routes {
        route.write_row(&mut rows);
    }
    rows
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    const DYNAMIC: [&str; 5] =
        ["RadixIPLookup", "DirectIPLookup", "RangeIPLookup", "LinearIPLookup", "SortedIPLookup"];
    const ALL: [&str; 7] = [
        "RadixIPLookup",
        "DirectIPLookup",
        "RangeIPLookup",
        "LinearIPLookup",
        "SortedIPLookup",
        "StaticIPLookup",
        "LookupIPRoute",
    ];

    fn packet(destination: [u8; 4]) -> Packet {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_dst_ip(destination.into());
        packet
    }

    #[test]
    fn packets_use_the_longest_matching_prefix() {
        for class in ALL {
            let routes = "10/8 1, 10.1/16 192.168.0.1 0, 10.1.2.3 2, 11/8 - 2";
            let mut rig = Rig::new(&format!("{class}({routes})"), 1, 3).unwrap();
            let destinations = [
                [10, 1, 2, 3],
                [10, 2, 0, 0],
                [12, 0, 0, 1],
                [10, 1, 0, 9],
                [11, 0, 0, 0],
                [10, 9, 9, 9],
            ];
            let out = rig.push_packets(0, destinations.map(packet).into());
            let destinations: Vec<Vec<String>> = out
                .iter()
                .map(|port| port.iter().map(|packet| packet.dst_ip().to_string()).collect())
                .collect();
            assert_eq!(
                destinations,
                [vec!["192.168.0.1"], vec!["10.2.0.0", "10.9.9.9"], vec!["10.1.2.3", "11.0.0.0"]],
                "{class}"
            );
            assert_eq!(rig.stats().drops, [(Reason::NoRoute, 1)]);
            assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn packets_keep_their_order_at_each_output() {
        for class in ALL {
            let routes = "1/8 0, 2/8 10.0.0.1 1, 3/8 2, 4/8 0";
            let mut rig = Rig::new(&format!("{class}({routes})"), 1, 3).unwrap();
            // First alternating networks, then runs of the same network.
            let networks = (0..150).map(|n| n % 4).chain((0..100).map(|n| n / 25));
            let packets = networks.zip(0u8..).map(|(network, number)| {
                let mut packet = packet([network + 1, 0, 0, 1]);
                packet.set_paint(number);
                packet
            });
            let out = rig.push_packets(0, packets.collect());
            let lengths: Vec<usize> = out.iter().map(Vec::len).collect();
            assert_eq!(lengths, [38 + 37 + 50, 38 + 25, 37 + 25], "{class}");
            for port in &out {
                assert!(port.is_sorted_by_key(|packet| packet.paint()), "{class}");
            }
            assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn routes_are_added_set_and_removed() {
        for class in DYNAMIC {
            let mut rig = Rig::new(class, 1, 3).unwrap();
            let steps = [
                ("add", "18.26/16 1.0.0.1 0", "0 1.0.0.1"),
                ("add", "18.26.0/18 2.0.0.2 1", "1 2.0.0.2"),
                ("add", "18.26.0/17 2", "1 2.0.0.2"),
                ("remove", "18.26.0/18 2.0.0.2 1", "2"),
                ("remove", "18.26.0/16", "2"),
                ("set", "18.26.0/17 - 1", "1"),
                ("ctrl", "remove 18.26.0/17\nadd 0/0 9.9.9.9 2\nset 0/0 9.9.9.8 2", "2 9.9.9.8"),
                ("remove", "0.0.0.0/0", "-1"),
            ];
            for (handler, text, found) in steps {
                rig.write(handler, text).unwrap();
                let read = rig.router().read("x.lookup", b"18.26.4.9").unwrap();
                assert_eq!(String::from_utf8_lossy(&read), found, "{class}: {handler} {text}");
            }
        }
    }

    #[test]
    fn failed_commands_are_reported_and_change_nothing() {
        for class in DYNAMIC {
            let mut rig = Rig::new(&format!("{class}(18.16/12 4.0.0.4 0)"), 1, 1).unwrap();
            for (handler, text, message) in [
                ("add", "18.16/12 0", "conflict with existing route ‘18.16.0.0/12 4.0.0.4 0’"),
                ("remove", "18.16/12 0", "route ‘18.16.0.0/12 - 0’ not found"),
                ("remove", "18.16/13", "route ‘18.16.0.0/13 - -1’ not found"),
                ("add", "18.16/12 1", "bad OUTPUT"),
                ("set", "18.16/12", "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"),
                ("remove", "", "expected ‘ADDR/MASK [GATEWAY OUTPUT]’"),
                ("ctrl", "flush", "bad command ‘flush’"),
                (
                    "ctrl",
                    "add 1/8 0\nremove 18.16/12\nremove 18.16/12",
                    "route ‘18.16.0.0/12 - -1’ not found",
                ),
            ] {
                let error = rig.write(handler, text).unwrap_err();
                assert_eq!(error.to_string(), message, "{class}: {handler} {text}");
                assert_eq!(rig.read("table").unwrap(), "18.16.0.0/12\t\t4.0.0.4\t\t0\n");
            }
            let error = rig.router().read("x.lookup", b"everywhere").unwrap_err();
            assert_eq!(error.to_string(), "expected IP address");
        }
    }

    #[test]
    fn errors_name_the_number_of_the_wrong_argument() {
        let errors = Rig::new("RadixIPLookup(1/8 0, 2/8 1, hello, 3.0.0.0/255.0.255.0 0)", 1, 1);
        let errors: Vec<String> =
            errors.err().unwrap().iter().map(|error| error.message.clone()).collect();
        assert_eq!(
            errors,
            [
                "argument 2 bad OUTPUT",
                "argument 3 should be ‘ADDR/MASK [GATEWAY] OUTPUT’",
                "argument 4: mask 255.0.255.0 is not that of a prefix",
            ]
        );
    }

    #[test]
    fn each_class_lists_its_routes_in_its_own_order() {
        let routes = "0/0 0, 18/8 0, 10.1/16 0, 10/8 0";
        for (class, listed) in [
            ("RadixIPLookup", ["0.0.0.0/0", "18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]),
            ("LinearIPLookup", ["0.0.0.0/0", "18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]),
            ("SortedIPLookup", ["18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]),
            ("DirectIPLookup", ["0.0.0.0/0", "10.0.0.0/8", "18.0.0.0/8", "10.1.0.0/16"]),
            ("RangeIPLookup", ["0.0.0.0/0", "10.0.0.0/8", "18.0.0.0/8", "10.1.0.0/16"]),
        ] {
            let rig = Rig::new(&format!("{class}({routes})"), 1, 1).unwrap();
            let table = rig.read("table").unwrap();
            let networks: Vec<&str> =
                table.lines().filter_map(|line| line.split('\t').next()).collect();
            assert_eq!(networks, listed, "{class}");
        }
    }

    #[test]
    fn flush_exists_in_the_same_classes_as_in_click() {
        for class in ["DirectIPLookup", "RangeIPLookup", "RadixIPLookup"] {
            let mut rig = Rig::new(&format!("{class}(0/0 0, 10.0.0.1/32 0)"), 1, 1).unwrap();
            rig.write("flush", "").unwrap();
            assert_eq!(rig.read("table").unwrap(), "");
        }
        assert!(Rig::new("LinearIPLookup", 1, 1).unwrap().write("flush", "").is_err());
    }

    #[test]
    fn static_tables_have_no_handlers_to_change_them() {
        for class in ["StaticIPLookup", "LookupIPRoute", "LookupIPRouteMP"] {
            let mut rig = Rig::new(&format!("{class}(0/0 0)"), 1, 1).unwrap();
            for handler in ["add", "set", "remove", "ctrl", "flush"] {
                assert!(rig.write(handler, "1/8 0").is_err(), "{class}.{handler}");
            }
            assert_eq!(rig.read("table").unwrap(), "0.0.0.0/0\t\t-\t\t0\n");
        }
    }
}
