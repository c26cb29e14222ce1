//! Routes for device and CPU, kept in step.
//!
//! The device has an image of the routes; each change makes a new one, and a batch sees one of them from its beginning to
//! its end. Hops are numbered once: the numbers that a batch brings back from the device keep their meaning after any number
//! of changes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use foldhash::fast::RandomState;
use millrace_core::Lock;
use millrace_gpu::table::{self, Changes, TableError};
use millrace_gpu::{Snapshot, StageTable};

use super::Family;
use crate::ip;
use crate::ip::lookup::routing::Routing;
use crate::ip::lookup::{Address, Command, Error, FibWriter, Hop, Route};

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
    pub(in crate::gpu) bits: A::Bits,
    pub(in crate::gpu) length: u8,
    pub(in crate::gpu) hop: Option<u32>,
}

/// The routes of an element, for device and CPU.
pub(super) struct TwinRoutes<A: Family> {
    routing: Routing<A::Writer, A>,
    writer: Lock<Writer<A>>,
    /// The image that the device should have.
    table: ArcSwapOption<StageTable>,
    hops: ArcSwap<Hops<A>>,
}

/// The routes at one time, and their hops.
pub(super) struct Pinned<A: Family> {
    pub(super) routes: ip::lookup::Snapshot<<A::Writer as FibWriter<A>>::Fib, A>,
    pub(super) hops: Arc<Hops<A>>,
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
pub(super) struct Hops<A: Address> {
    pub(super) by_number: Vec<Hop<A>>,
    pub(super) numbers: HashMap<Hop<A>, u32, RandomState>,
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

impl<A: Family> TwinRoutes<A> {
    /// Routes without an image.
    pub(super) fn new(routing: Routing<A::Writer, A>) -> Self {
        let writer = Writer { made: Made::NotYet, epoch: 0, changes: Changes::default() };
        let (table, hops) = (ArcSwapOption::default(), ArcSwap::default());
        Self { routing, writer: Lock::new(writer), table, hops }
    }

    /// The routes themselves.
    pub(super) fn routing(&self) -> &Routing<A::Writer, A> {
        &self.routing
    }

    /// The image that the device should have, if there is one.
    pub(super) fn table(&self) -> Option<StageTable> {
        if self.table.load().is_none() {
            self.prepare().ok()?;
        }
        self.table.load().as_deref().cloned()
    }

    /// Every hop that a route ever had.
    pub(super) fn hops(&self) -> Guard<Arc<Hops<A>>> {
        self.hops.load()
    }

    /// Builds the image, which takes time; not before the router is about to run.
    ///
    /// # Errors
    /// There are too many routes for a device.
    pub(super) fn prepare(&self) -> Result<(), TableError> {
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
    pub(super) fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
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
    pub(super) fn flush(&self) -> Result<(), Error<A>> {
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
    pub(super) fn pin(&self) -> Arc<Pinned<A>> {
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
        let routes: &TwinRoutes<Ipv4Addr> = &element.lookup.routes;
        routes.apply(&[]).unwrap();
        assert_eq!(routes.table().unwrap().epoch, 1);
        // The state after a change for which the device has no room.
        routes.writer.lock().made = Made::Not(TableError::TooLarge { bytes: 1 << 30 });
        routes.table.store(None);
        assert!(routes.table().is_none());
        assert_eq!(routes.prepare(), Err(TableError::TooLarge { bytes: 1 << 30 }));
        routes.apply(&[]).unwrap();
        assert_eq!(routes.table().unwrap().epoch, 2);
        routes.flush().unwrap();
        assert_eq!(routes.table().unwrap().epoch, 3);
    }
}
