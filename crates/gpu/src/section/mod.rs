//! Sections at run time: lanes that collect, submit and deliver batches in order; failures; balance between device
//! and CPU.
//!
//! A [`Section`] is shared by the threads that run it: the plan, the stages, the tables on the device, and counts.
//! Each thread has a [`Lane`] through it: `Batcher` [adds](Lane::add) packets; `Debatcher`'s task
//! [ticks](Lane::tick), and [takes](Lane::take) finished batches.
//!
//! # Order
//!
//! A lane is a queue of batches. Batches on the device and batches of the CPU twins are in the same queue, and only
//! the oldest one is delivered. So packets leave a lane in the order in which they entered, whatever the balancer
//! does or fails.
//!
//! # Loss
//!
//! Packets stay unchanged in their lane until their batch is [taken](Lane::take). Until then they can be processed
//! again by the CPU twins, or moved to [another lane](Lane::take_packets).

mod attendant;
pub mod balance;
mod clock;
mod flight;
mod histogram;
mod lane;
mod lanes;
mod path;
mod pause;
mod recovery;
mod report;
mod settings;
mod source;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};

use millrace_core::{BiasedMutex, Lock};

pub use self::histogram::Histogram;
pub use self::lane::Lane;
pub use self::lanes::Lanes;
pub use self::path::{Mode, Path};
pub use self::report::{Fault, PathReport, Report};
pub use self::settings::Settings;
pub use self::source::{Open, Source};

use self::attendant::Attendant;
use self::clock::DeviceClock;
use self::recovery::{Connected, Connection};
use self::report::Counters;
use self::tables::Tables;
use crate::plan::Plan;
use crate::{Caps, Device, DeviceError, Stage};

/// The shared state of the threads that run a section.
pub struct Section {
    plan: Arc<Plan>,
    stages: Vec<Arc<dyn Stage>>,
    source: Option<Arc<Source>>,
    settings: Settings,
    mode: AtomicU8,
    tables: Tables,
    clock: DeviceClock,
    attendant: Attendant,
    members: Lock<Vec<Member>>,
    /// Lanes on the device that no thread uses yet.
    spare: Lock<Vec<Connection>>,
    /// The counts at the time of the last reset.
    before: Lock<Report>,
}

/// One of a section's lanes.
struct Member {
    counters: Arc<Counters>,
    /// The lane, for access by other threads.
    lane: Weak<BiasedMutex<Lane>>,
}

impl Section {
    /// A section that runs a plan. `stages` are those of the plan's nodes, in order. Without a source of devices, the
    /// twins do all the work. Opens no device.
    pub fn new(
        plan: Arc<Plan>,
        stages: Vec<Arc<dyn Stage>>,
        source: Option<Arc<Source>>,
        settings: Settings,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan,
            stages,
            source,
            mode: AtomicU8::new(settings.mode as u8),
            settings,
            tables: Tables::default(),
            clock: DeviceClock::default(),
            attendant: Attendant::default(),
            members: Lock::default(),
            spare: Lock::default(),
            before: Lock::default(),
        })
    }

    /// Prepares to run on this number of threads: opens the device, loads tables, and makes lanes. An unprepared
    /// section does so when packets arrive. Call it before the threads that process packets start.
    ///
    /// # Errors
    /// There is no device at present, or it lacks something. The section runs nevertheless, on the CPU, and tries
    /// again.
    pub fn prepare(self: &Arc<Self>, lanes: usize) -> Result<Caps, DeviceError> {
        if !self.settings.inline {
            self.attendant.hire();
        }
        for _ in 0..lanes {
            let connection = self.connect().map_err(|(_, error)| error)?;
            self.spare.lock().push(connection);
        }
        let source = self.source.as_ref().ok_or_else(without_device)?;
        Ok(source.device()?.1.caps().clone())
    }

    /// A lane through the section, for one thread.
    pub fn lane(self: &Arc<Self>) -> Lane {
        self.new_lane(Weak::new())
    }

    /// A lane that other threads can access.
    fn shared_lane(self: &Arc<Self>) -> Arc<BiasedMutex<Lane>> {
        Arc::new_cyclic(|lane| BiasedMutex::new(self.new_lane(lane.clone())))
    }

    fn new_lane(self: &Arc<Self>, lane: Weak<BiasedMutex<Lane>>) -> Lane {
        let counters = Arc::new(Counters::default());
        self.members.lock().push(Member { counters: counters.clone(), lane });
        let connection = self.spare.lock().pop();
        Lane::new(self.clone(), counters, connection)
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Maximum number of packets of a batch.
    pub fn packets(&self) -> usize {
        self.settings.packets.clamp(1, self.plan.capacity.max(1))
    }

    /// Sizes and times.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The size of all present tables of its stages, in bytes.
    pub fn table_bytes(&self) -> u64 {
        let tables = self.stages.iter().filter_map(|stage| stage.table());
        tables.map(|table| table.words.len() as u64 * 4).sum()
    }

    /// Which path batches take.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Relaxed) {
            mode if mode == Mode::Gpu as u8 => Mode::Gpu,
            mode if mode == Mode::Cpu as u8 => Mode::Cpu,
            _ => Mode::Adaptive,
        }
    }

    /// Changes the path of the batches that begin from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Relaxed);
    }

    /// The counts so far, or since they were [reset](Self::reset_counts). Stops no thread.
    pub fn report(&self) -> Report {
        let before = self.before.lock();
        let mut report = self.report_in_all();
        report.subtract(&before);
        report
    }

    /// Resets the counts to 0.
    pub fn reset_counts(&self) {
        // Only lanes write their counts.
        let mut before = self.before.lock();
        *before = self.report_in_all();
    }

    fn report_in_all(&self) -> Report {
        let mut report = Report::default();
        self.members.lock().iter().for_each(|member| report.add(&member.counters));
        report.faults[Fault::Load as usize] += self.tables.failures();
        report
    }

    /// The number of packets that its lanes hold.
    pub fn held(&self) -> usize {
        self.members.lock().iter().map(|member| member.counters.held.get() as usize).sum()
    }
}

/// Actions that lanes request.
impl Section {
    fn stages(&self) -> &[Arc<dyn Stage>] {
        &self.stages
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn has_device(&self) -> bool {
        self.source.is_some()
    }

    /// The generation of the present device; 0 if there is none.
    fn present(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.present())
    }

    /// The time of the device's clock, in nanoseconds.
    fn device_now(&self) -> u64 {
        self.clock.now()
    }

    /// Makes a lane on the device, with all tables loaded.
    fn connect(&self) -> Connected {
        let source = self
            .source
            .as_ref()
            .ok_or_else(without_device)
            .map_err(|error| (Fault::Open, error))?;
        let (generation, device) = source.device().map_err(|error| (Fault::Open, error))?;
        let failed = |otherwise: Fault| {
            move |error: DeviceError| {
                let fault = Fault::of(&error, otherwise);
                if fault == Fault::Lost {
                    self.lost(generation);
                }
                (fault, error)
            }
        };
        self.load(generation, &*device).map_err(failed(Fault::Load))?;
        let lane =
            device.open_lane(&self.plan, self.settings.slots).map_err(failed(Fault::Open))?;
        Ok(Connection { lane, generation, _device: device })
    }

    fn load(&self, generation: u64, device: &dyn Device) -> Result<(), DeviceError> {
        let count = self.plan.tables();
        self.tables.load(generation, device, &self.stages, count, self.device_now())
    }

    /// Makes a connection for a lane, on the attendant's thread.
    fn connect_aside(self: &Arc<Self>, sender: SyncSender<Connected>) {
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            // If the lane is gone, nobody waits for it.
            let _ = sender.send(section.connect());
        }));
    }

    /// Loads the stages' tables that the device lacks, on the attendant's thread, unless it is being done or has just
    /// failed.
    fn load_aside(self: &Arc<Self>, now: u64) {
        if !self.tables.ask(now) {
            return;
        }
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            let device = section.source.as_ref().and_then(|source| source.opened());
            let Some((generation, device)) = device else { return section.tables.not_now() };
            // The tables store that it failed, and when to try again.
            if section.load(generation, &*device).is_err_and(|error| error.is_lost()) {
                drop(device);
                section.lost(generation);
            }
        }));
    }

    /// Closes the connection to a lost device, and makes all lanes release it: it can be opened again only then.
    fn dispose(self: &Arc<Self>, connection: Connection) {
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            let generation = connection.generation;
            drop(connection);
            section.lost(generation);
        }));
    }

    /// Releases a lost device in this section and in all its lanes.
    fn lost(&self, generation: u64) {
        self.tables.forget(generation);
        self.spare.lock().retain(|spare| spare.generation != generation);
        let first = self.source.as_ref().is_some_and(|source| source.lost(generation));
        // This includes lanes without traffic. The lane whose thread is running this is locked already.
        if first && self.attendant.is_hired() {
            let lanes: Vec<_> =
                self.members.lock().iter().filter_map(|one| one.lane.upgrade()).collect();
            lanes.iter().for_each(|lane| lane.visit().let_go());
        }
    }
}

fn without_device() -> DeviceError {
    DeviceError::Unsupported("the section has no device".to_owned())
}
