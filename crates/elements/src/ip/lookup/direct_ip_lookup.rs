//! DirectIPLookup - routes packets by longest prefix match in directly indexed tables (fastest)
//!
//! # Synopsis
//! `DirectIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! # Description
//! Looks up each packet's destination annotation and uses the route with the longest matching prefix. Sends the packet
//! to the route's output. If the route has a gateway, sets the annotation to the gateway's address.
//!
//! The tables use the DIR-24-8 scheme: most lookups read memory once, none more than twice, however many routes there
//! are. The first table needs up to 48 MiB, and less where networks have no routes. Each /24 network that contains
//! longer prefixes needs 772 bytes more. With more than 32,767 different next hops, or 32,768 such /24 networks, the
//! first table needs up to 80 MiB. The element asks the kernel for huge pages for the tables.
//!
//! # Arguments
//! - Routes, one per argument: a network or a single address; an optional gateway, where `-` means none; and an output.
//!   If several routes have the same network, the first one is used.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line: network, gateway or `-`, output. Their order is that of Click's hash
//!   table, which looks random.
//! - `lookup` (read): the output for the given address, and the gateway if there is one; -1 if no route matches.
//! - `add` (write): adds a route, `ADDR/MASK [GATEWAY] OUTPUT`. Fails if the network already has one.
//! - `set` (write): adds a route, or replaces the network's existing one.
//! - `remove` (write): removes the route of a network, `ADDR/MASK [GATEWAY OUTPUT]`. Fails if there is no such
//!   route, or if its gateway or output differ from those given.
//! - `ctrl` (write): runs `add ...`, `set ...` and `remove ...` commands, one per line. If one of them fails, none
//!   takes effect. For each address, packets see the route from either before or after all the commands.
//! - `flush` (write): removes all routes.
//!
//! # Drops
//! - no route: no route matches the destination annotation.
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

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::ArgText;
use millrace_core::{
    Call, Class, Context, Element, Failed, HandlerError, Handlers, Moment, Offers, Packet, Reason,
    Setup, View, Way, register,
};

use super::routes::address::Address;
use super::routes::command::{Command, Syntax, Verb};
use super::routes::error::Error;
use super::routes::route::{Hop, Route, RouteLookup};
use super::tables::dir_24_8::Dir24x8Writer;
use super::tables::fib::FibWriter;
use super::tables::linear::sorted;
use super::tables::rib::Order;
use super::tables::table::RouteTable;

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

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup>(self.clone());
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
