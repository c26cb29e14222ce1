//! The common element behind GPUIPLookup and GPUIP6Lookup.
//!
//! The routes themselves, their text and their handlers are those of [`ip::lookup`](crate::ip::lookup). [`routes`] keeps the
//! device's image of them in step with them, and [`stage`] looks up addresses: on the CPU, and with what the device found.

mod routes;
mod stage;

use std::sync::Arc;

use millrace_core::{
    Class, Element, Failed, Handlers, Init, Inspection, Offers, Reason, Refused, Setup,
};
use millrace_gpu::kernel::Kernel;

use super::section::arguments::outputs_of;
use super::section::book::Member;
use super::section::predicate::Predicate;
use super::section::role::{Role, StageRole};
use crate::ip::lookup::routing::{
    Routing, RoutingElement, flush_handler, read_handlers, write_handlers,
};
use crate::ip::lookup::{Address, Command, Error, FibWriter, Order, RouteLookup};
use routes::TwinRoutes;
pub(super) use routes::{Image, Step};

/// An address family that the device can look up: the differences between the elements.
pub trait Family: Address {
    /// The class.
    const CLASS: Class;
    /// The order in which routes are listed.
    const ORDER: Order;
    /// The kernel that looks up addresses on the device.
    const KERNEL: Kernel;
    /// The CPU's lookup structure.
    type Writer: FibWriter<Self>;
    /// The routes in the device's format.
    type Image: Image<Self>;
}

/// The element of a family.
pub struct GpuLookup<A: Family> {
    member: Member,
    lookup: Arc<Lookup<A>>,
}

impl<A: Family> Element for GpuLookup<A> {
    const CLASS: Class = A::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ports = setup.outputs();
        let only: Option<Predicate> = setup.args.optional_keyword("CHK_ANNO");
        let outputs = outputs_of(&mut setup.args, ports);
        let routing = Routing::configure_for(setup, A::ORDER, outputs as usize)?;
        let name = setup.name().to_owned();
        let lookup = Arc::new(Lookup { name, outputs, routes: TwinRoutes::new(routing) });
        let stage = lookup.clone();
        let notes = Some(0..usize::from(A::LENGTH) / 8);
        let role = StageRole { stage, only, ports, reason: |_| Reason::NoRoute, notes };
        Ok(Self { member: Member::enter(setup, Role::Stage(role)), lookup })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.member.inspect(inspection);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.lookup.routes.prepare().map_err(|error| Refused(error.to_string()))
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup<A>>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
        handlers.read("image_bytes", |element, _| {
            element.lookup.routes.table().map_or(0, |table| table.words.len() * 4)
        });
        handlers.read("epoch", |element, _| {
            element.lookup.routes.table().map_or(0, |table| table.epoch)
        });
    }
}

impl<A: Family> RoutingElement<A> for GpuLookup<A> {
    type Writer = A::Writer;

    fn routing(&self) -> &Routing<A::Writer, A> {
        self.lookup.routes.routing()
    }

    fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        self.lookup.routes.apply(commands)
    }

    fn flush(&self) -> Result<(), Error<A>> {
        self.lookup.routes.flush()
    }
}

/// The stage of an element.
struct Lookup<A: Family> {
    name: String,
    outputs: u32,
    routes: TwinRoutes<A>,
}
