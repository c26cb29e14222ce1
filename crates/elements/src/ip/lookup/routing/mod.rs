//! The common element behind the classes that look up routes for packets one by one: arguments, messages, handlers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::ArgText;
use millrace_core::{
    Call, Class, Context, Element, Failed, HandlerError, Handlers, Moment, Offers, Packet,
    PerPacket, Reason, Setup, View, Way,
};

use super::routes::address::Address;
use super::routes::command::{Command, Syntax, Verb};
use super::routes::error::Error;
use super::routes::route::{Hop, Route, RouteLookup};
use super::tables::fib::FibWriter;
use super::tables::linear::sorted;
use super::tables::rib::Order;
use super::tables::table::RouteTable;

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

/// A class of elements that route packets one by one by a table.
pub(crate) trait LookupClass: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// The family of the addresses.
    type Address: Address;
    /// The structure in which addresses are looked up.
    type Writer: FibWriter<Self::Address>;

    /// Reads the routes.
    ///
    /// # Errors
    /// See [`Routing::configure`].
    fn configure(setup: &mut Setup<'_>) -> Result<RoutingOf<Self>, Failed>;

    /// Declares handlers in addition to `table` and `lookup`.
    fn handlers(_handlers: &mut Handlers<Lookup<Self>>) {}
}

/// The routing table of an element of a class.
pub(crate) type RoutingOf<C> = Routing<<C as LookupClass>::Writer, <C as LookupClass>::Address>;

/// An element of such a class.
pub(crate) struct Lookup<C: LookupClass>(RoutingOf<C>);

impl<C: LookupClass> Element for Lookup<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        C::configure(setup).map(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        C::handlers(handlers);
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup<C::Address>>(self.clone());
    }
}

impl<C: LookupClass> PerPacket for Lookup<C> {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        self.0.treat(packet, at)
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        self.0.reject(cx, packet, way)
    }
}

impl<C: LookupClass> RoutingElement<C::Address> for Lookup<C> {
    type Writer = C::Writer;

    fn routing(&self) -> &RoutingOf<C> {
        &self.0
    }
}

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
                Err(error) => {
                    args.error_with_help(text, error.of_argument(number), error.help(outputs));
                }
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
    fn treat(&self, packet: &mut View, at: &Moment) -> Way {
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
    fn reject(&self, cx: &mut Context, packet: Packet, way: Way) -> Option<Packet> {
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
