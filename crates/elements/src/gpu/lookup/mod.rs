//! The common element behind GPUIPLookup and GPUIP6Lookup: keeps the routes for the device and for the CPU in step.
//!
//! The routes themselves, their text and their handlers are those of [`ip::lookup`](crate::ip::lookup). The device has
//! an image of them; each change makes a new one, and a batch sees one of them from its beginning to its end.
//!
//! Hops are numbered once: the numbers that a batch brings back from the device keep their meaning after any number of
//! changes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use foldhash::fast::RandomState;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Lock, Offers, Packet,
    Reason, Refused, Setup,
};
use millrace_gpu::kernel::{Kernel, NONE};
use millrace_gpu::region::{Base, Region};
use millrace_gpu::table::{self, Changes, TableError};
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};

use super::section::arguments::outputs_of;
use super::section::book::Member;
use super::section::predicate::Predicate;
use super::section::role::{Role, StageRole};
use crate::ip;
use crate::ip::lookup::direct_ip_lookup::{
    Routing, RoutingElement, flush_handler, read_handlers, write_handlers,
};
use crate::ip::lookup::{
    Address, Command, Error, FibWriter, Hop, HopId, Order, Route, RouteLookup,
};

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

/// Routes in the device's format.
pub trait Image<A: Address>: Sized + Send + Sync + 'static {
    /// An image of routes; `outputs` are the decisions of their hops.
    ///
    /// # Errors
    /// There are too many for a device.
    fn build(routes: &[table::Route<A::Bits>], outputs: &[u32]) -> Result<Self, TableError>;

    /// The image itself.
    fn words(&self) -> &Arc<Vec<u32>>;

    /// The parts of the words that have changed since the last call.
    fn take_changes(&mut self) -> Vec<Range<usize>>;

    /// Applies changes; returns false when the image must be rebuilt instead.
    fn update(&mut self, changes: &[Step<A>], outputs: &[u32]) -> bool;
}

/// A change of a route in terms of the image: the network, and its hop if it has one now.
pub struct Step<A: Address> {
    pub(super) bits: A::Bits,
    pub(super) length: u8,
    pub(super) hop: Option<u32>,
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
        let lookup = Arc::new(Lookup {
            name: setup.name().to_owned(),
            outputs,
            routing,
            writer: Lock::new(Writer { made: Made::NotYet, epoch: 0, changes: Changes::default() }),
            table: ArcSwapOption::default(),
            hops: ArcSwap::default(),
        });
        let stage = lookup.clone();
        let notes = Some(0..usize::from(A::LENGTH) / 8);
        let role = StageRole { stage, only, ports, reason: |_| Reason::NoRoute, notes };
        Ok(Self { member: Member::enter(setup, Role::Stage(role)), lookup })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.member.inspect(inspection);
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.lookup.prepare().map_err(|error| Refused(error.to_string()))
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup<A>>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        read_handlers(handlers);
        write_handlers(handlers);
        flush_handler(handlers);
        handlers.read("image_bytes", |element, _| {
            element.lookup.table().map_or(0, |table| table.words.len() * 4)
        });
        handlers.read("epoch", |element, _| element.lookup.table().map_or(0, |table| table.epoch));
    }
}

impl<A: Family> RoutingElement<A> for GpuLookup<A> {
    type Writer = A::Writer;

    fn routing(&self) -> &Routing<A::Writer, A> {
        &self.lookup.routing
    }

    fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        self.lookup.apply(commands)
    }

    fn flush(&self) -> Result<(), Error<A>> {
        self.lookup.flush()
    }
}

/// Routes for device and CPU.
struct Lookup<A: Family> {
    name: String,
    outputs: u32,
    routing: Routing<A::Writer, A>,
    writer: Lock<Writer<A>>,
    /// The image that the device should have.
    table: ArcSwapOption<StageTable>,
    hops: ArcSwap<Hops<A>>,
}

/// The routes at one time, and their hops.
struct Pinned<A: Family> {
    routes: ip::lookup::Snapshot<<A::Writer as FibWriter<A>>::Fib, A>,
    hops: Arc<Hops<A>>,
}

/// Builds images.
struct Writer<A: Family> {
    made: Made<A>,
    /// How often the routes have changed.
    epoch: u64,
    changes: Changes,
}

/// The image of the routes.
enum Made<A: Family> {
    /// Not needed yet.
    NotYet,
    Image(A::Image),
    /// There are too many routes for a device; they are looked up on the CPU until a change makes them fewer.
    Not(TableError),
}

/// Every hop that a route ever had.
#[derive(Clone)]
struct Hops<A: Address> {
    by_number: Vec<Hop<A>>,
    numbers: HashMap<Hop<A>, u32, RandomState>,
}

impl<A: Address> Default for Hops<A> {
    fn default() -> Self {
        Self { by_number: Vec::new(), numbers: HashMap::default() }
    }
}

impl<A: Address> Hops<A> {
    fn number(&mut self, hop: Hop<A>) -> u32 {
        *self.numbers.entry(hop).or_insert_with(|| {
            self.by_number.push(hop);
            (self.by_number.len() - 1) as u32
        })
    }

    /// The decision of each hop.
    fn outputs(&self) -> Vec<u32> {
        self.by_number.iter().map(|hop| hop.port).collect()
    }
}

impl<A: Family> Lookup<A> {
    /// Builds the image, which takes time; not before the router is about to run.
    ///
    /// # Errors
    /// There are too many routes for a device.
    fn prepare(&self) -> Result<(), TableError> {
        let writer = &mut *self.writer.lock();
        if let Made::NotYet = writer.made {
            self.remake(writer);
        }
        match &writer.made {
            Made::Not(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Applies commands for device and CPU, or for neither. If the device then has no room for the routes, the CPU does
    /// the section's work.
    ///
    /// # Errors
    /// One of them cannot be applied.
    fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        let table = self.routing.table();
        let writer = &mut *self.writer.lock();
        table.check(commands)?;
        let mut hops = Hops::clone(&self.hops.load());
        let step = |command: &Command<A>| match *command {
            Command::Add(Route { prefix, hop }) | Command::Set(Route { prefix, hop }) => {
                Step { bits: prefix.first(), length: prefix.length(), hop: Some(hops.number(hop)) }
            }
            Command::Remove(prefix, _) => {
                Step { bits: prefix.first(), length: prefix.length(), hop: None }
            }
        };
        let steps: Vec<Step<A>> = commands.iter().map(step).collect();
        let outputs = hops.outputs();
        // The CPU may find a hop as soon as the routes have it.
        self.hops.store(Arc::new(hops));
        table.apply(commands)?;
        writer.epoch += 1;
        let in_step = match &mut writer.made {
            Made::NotYet => return Ok(()),
            Made::Image(image) => image.update(&steps, &outputs),
            Made::Not(_) => false,
        };
        match in_step {
            true => self.publish(writer),
            false => self.remake(writer),
        }
        Ok(())
    }

    /// Removes all routes.
    ///
    /// # Errors
    /// There is not enough memory.
    fn flush(&self) -> Result<(), Error<A>> {
        let writer = &mut *self.writer.lock();
        self.routing.table().flush()?;
        writer.epoch += 1;
        if !matches!(writer.made, Made::NotYet) {
            self.remake(writer);
        }
        Ok(())
    }

    /// Rebuilds the image, or withdraws it.
    fn remake(&self, writer: &mut Writer<A>) {
        match self.rebuild() {
            Ok(image) => {
                writer.made = Made::Image(image);
                self.publish(writer);
            }
            Err(error) => {
                writer.made = Made::Not(error);
                self.table.store(None);
            }
        }
    }

    fn rebuild(&self) -> Result<A::Image, TableError> {
        let mut hops = Hops::clone(&self.hops.load());
        let route = |route: &Route<A>| table::Route {
            prefix: route.prefix.first(),
            length: route.prefix.length(),
            hop: hops.number(route.hop),
        };
        let routes: Vec<_> = self.routing.table().routes().iter().map(route).collect();
        let image = A::Image::build(&routes, &hops.outputs())?;
        self.hops.store(Arc::new(hops));
        Ok(image)
    }

    /// The routes in which the CPU looks up a batch. They are kept until the batch is delivered, which neither
    /// structure of routes [waits](crate::ip::lookup::Readers::settle) for.
    fn pin(&self) -> Arc<Pinned<A>> {
        let routes = self.routing.table().snapshot();
        // After the routes, so that it contains all their hops.
        Arc::new(Pinned { routes, hops: self.hops.load_full() })
    }

    fn publish(&self, writer: &mut Writer<A>) {
        let Writer { made: Made::Image(image), epoch, changes } = writer else { return };
        changes.note(*epoch, image.take_changes());
        self.table.store(Some(Arc::new(StageTable {
            epoch: *epoch,
            words: image.words().clone(),
            changes: Arc::new(changes.clone()),
            // Numbers of hops never change.
            snapshot: Snapshot::default(),
        })));
    }
}

impl<A: Family> Stage for Lookup<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: A::KERNEL,
            regions: vec![Region::read(Base::Annotation, 0, u16::from(A::LENGTH) / 8)],
            constants: [0; 4],
            table: true,
            outputs: self.outputs,
        }
    }

    fn table(&self) -> Option<StageTable> {
        if self.table.load().is_none() {
            self.prepare().ok()?;
        }
        self.table.load().as_deref().cloned()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.pin())
    }

    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>) {
        let pinned = snapshot.get::<Pinned<A>>().unwrap_or_else(|| self.pin());
        let Pinned { routes, hops } = &*pinned;
        let mut addresses = [A::Bits::default(); Batch::CAPACITY];
        let mut found = [HopId::NONE; Batch::CAPACITY];
        let count = rows.len().min(Batch::CAPACITY);
        for (address, packet) in addresses.iter_mut().zip(rows.packets()) {
            *address = A::destination(packet.annotations()).to_bits();
        }
        routes.lookup_batch(&addresses[..count], &mut found[..count]);
        for (row, id) in found[..count].iter().enumerate() {
            if !rows.is_active(row) {
                continue;
            }
            let hop = routes.hop(*id);
            match hop.and_then(|hop| Some((hop, *hops.numbers.get(&hop)?))) {
                Some((hop, number)) => {
                    rows.set_result(row, number);
                    rows.decide(row, hop.port);
                }
                None => rows.decide(row, Rows::DROP),
            }
        }
    }

    fn deliver(
        &self,
        _cx: &mut Context,
        _snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        let hops = self.hops.load();
        for (packet, &result) in packets.iter_mut().zip(results.iter()) {
            if result != NONE
                && let Some(hop) = hops.by_number.get(result as usize)
                && hop.has_gateway()
            {
                hop.gateway.set_destination(packet.annotations_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Registry;
    use millrace_core::run::{Options, check};
    use millrace_lang::SourceMap;

    use super::*;
    use crate::gpu::gpu_ip_lookup::GpuIpLookup;
    use std::net::Ipv4Addr;

    #[test]
    fn too_many_routes_have_no_image_until_there_are_fewer() {
        let config = "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(1.0.0.0/8 0)
            -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> Discard";
        let mut map = SourceMap::default();
        let source = map.add("router.click", config);
        let (graph, _) = millrace_lang::compile(&mut map, source, &Default::default());
        let (router, found) = check(&graph, &Registry::linked(), Options::default());
        let router = router.unwrap_or_else(|| panic!("{found:?}"));
        let element = router.element::<GpuIpLookup>(router.find("rt").unwrap()).unwrap();
        let lookup: &Lookup<Ipv4Addr> = &element.lookup;
        lookup.apply(&[]).unwrap();
        assert_eq!(lookup.table().unwrap().epoch, 1);
        // The state after a change for which the device has no room.
        lookup.writer.lock().made = Made::Not(TableError::TooLarge { bytes: 1 << 30 });
        lookup.table.store(None);
        assert!(lookup.table().is_none());
        assert_eq!(lookup.prepare(), Err(TableError::TooLarge { bytes: 1 << 30 }));
        lookup.apply(&[]).unwrap();
        assert_eq!(lookup.table().unwrap().epoch, 2);
        lookup.flush().unwrap();
        assert_eq!(lookup.table().unwrap().epoch, 3);
    }
}
