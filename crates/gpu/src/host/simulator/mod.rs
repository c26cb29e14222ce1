//! The host backend's simulator: a device whose users need as much care as those of a GPU.
//!
//! * It has **its own memory** (`arena`): kernels see only what the plan copies, and all other memory contains
//!   poison. Each allocation is between red zones, which are checked after each step.
//! * It is **asynchronous** (`stream`): a lane is a stream. Its steps run in order on the device's thread, between
//!   those of other lanes and with pauses, both chosen by a seed. Within a launch, rows are processed in any order.
//! * It **checks tables** before kernels read them ([`table::check`]).
//! * It **fails** when [`Faults`] say so.
//!
//! Random choices do not depend on the clock, but the available batches do: two runs with the same seed are similar,
//! not equal. Their results are equal.

mod arena;
mod faults;
mod lane;
mod resident;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use millrace_core::Lock;

use arena::{Arena, Memory};
pub use faults::{Call, Fault, Faults, Point};
use lane::Lane;
use resident::{SimTable, lost};
pub use settings::Settings;
use stream::{Machine, Upload};

use crate::device::slot::check_plan;
use crate::device::{Caps, Device, DeviceError, DeviceId, DeviceLane, Old, Table, WhyNot};
use crate::plan::Plan;
use crate::table;

/// Maximum number of dropped lanes that still have work in flight.
const MOST_ABANDONED: usize = 4;

/// A simulated machine with one device.
pub struct Simulator {
    settings: Settings,
    faults: Faults,
    socket: Lock<Socket>,
}

/// What is left of the last opened device.
#[derive(Default)]
struct Socket {
    opened: u64,
    device: Weak<SimDevice>,
    /// The time of its loss, if it was lost.
    lost: Arc<OnceLock<Instant>>,
}

impl Simulator {
    /// A machine whose device is not open yet.
    pub fn new(settings: Settings, faults: Faults) -> Self {
        Self { settings, faults, socket: Lock::default() }
    }

    /// Opens the device, or returns the open one.
    ///
    /// # Errors
    /// It was lost a moment ago, or lanes of the lost device still exist.
    pub fn open(&self) -> Result<Arc<dyn Device>, WhyNot> {
        let mut socket = self.socket.lock();
        if let Some(device) = socket.device.upgrade() {
            return if device.is_lost() {
                Err(WhyNot("the simulated device was lost and is still in use".to_owned()))
            } else {
                Ok(device)
            };
        }
        if socket.lost.get().is_some_and(|since| since.elapsed() < self.settings.down) {
            return Err(WhyNot("the simulated device is down".to_owned()));
        }
        socket.opened += 1;
        let seed = self.settings.seed.wrapping_add(socket.opened);
        let machine = Machine::new(seed, self.settings.clone(), self.faults.clone());
        let work = machine.clone();
        thread::Builder::new()
            .name("gpu-simulator".to_owned())
            .spawn(move || work.run())
            .map_err(|error| WhyNot(format!("no thread for the simulated device: {error}")))?;
        let caps = Caps {
            backend: "simulator",
            name: "simulated device".to_owned(),
            memory: self.settings.memory,
            asynchronous: true,
        };
        socket.lost = machine.lost.clone();
        let arena = Arena::new(self.settings.memory);
        let rng = Lock::new(Rng::with_seed(seed ^ 0x5eed));
        let device = Arc::new_cyclic(|me| SimDevice {
            me: me.clone(),
            id: DeviceId::new(),
            caps,
            arena,
            rng,
            machine,
        });
        socket.device = Arc::downgrade(&device);
        Ok(device)
    }

    /// A function that opens the machine's device.
    pub fn opener(self) -> impl Fn() -> Result<Arc<dyn Device>, DeviceError> + Send + Sync {
        move || Ok(self.open()?)
    }
}

/// The simulated device, as long as it is open. Lanes hold a reference to it.
struct SimDevice {
    me: Weak<Self>,
    id: DeviceId,
    caps: Caps,
    arena: Arc<Arena>,
    rng: Lock<Rng>,
    machine: Arc<Machine>,
}

impl SimDevice {
    fn allocate(&self, bytes: usize) -> Result<Memory, DeviceError> {
        Memory::new(&self.arena, bytes, &mut self.rng.lock())
    }

    /// Memory for a table.
    fn table(&self, words: &[u32]) -> Result<Arc<SimTable>, DeviceError> {
        self.refuse(Call::Table)?;
        check_table(words)?;
        let memory = self.allocate(words.len() * 4)?;
        let table = Arc::new(SimTable::new(self.id, memory));
        self.machine.watch(&table);
        Ok(table)
    }

    fn refuse(&self, call: Call) -> Result<(), DeviceError> {
        if self.machine.is_lost() {
            return Err(lost());
        }
        if self.machine.faults.refuses(call) {
            return Err(DeviceError::OutOfMemory("injected".to_owned()));
        }
        Ok(())
    }
}

/// Checks a table, because a GPU would read any address. A table without a known header comes from a test of a part
/// of a kernel, and is accepted.
fn check_table(words: &[u32]) -> Result<(), DeviceError> {
    match table::check(words) {
        Ok(()) | Err(table::Fault::Unknown(_)) => Ok(()),
        Err(fault) => Err(DeviceError::Unsupported(format!("the table: {fault}"))),
    }
}

impl Device for SimDevice {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn id(&self) -> DeviceId {
        self.id
    }

    fn is_lost(&self) -> bool {
        self.machine.is_lost()
    }

    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        let table = self.table(words)?;
        self.machine.upload(Upload { table: table.clone(), words: words.clone(), like: None });
        Ok(Table::new(table))
    }

    fn load_changed(&self, words: &Arc<Vec<u32>>, old: Old<'_>) -> Result<Table, DeviceError> {
        let Some(like) = self.machine.table(old.table) else { return self.load_table(words) };
        let table = self.table(words)?;
        let like = Some((like, old.changed.to_vec()));
        self.machine.upload(Upload { table: table.clone(), words: words.clone(), like });
        Ok(Table::new(table))
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        self.refuse(Call::Lane)?;
        check_plan(plan)?;
        if self.machine.abandoned() >= MOST_ABANDONED {
            return Err(DeviceError::Step(
                "it has not released lanes that were closed \
                                          before"
                    .to_owned(),
            ));
        }
        let Some(device) = self.me.upgrade() else { return Err(lost()) };
        Ok(Box::new(Lane::open(device, plan, slots)?))
    }
}

impl Drop for SimDevice {
    fn drop(&mut self) {
        self.machine.stop();
    }
}
