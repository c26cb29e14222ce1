//! Sections at run time: lanes that collect, submit and deliver in order; failure; balance.
//!
//! A [`Section`] is shared by the threads that run it: the plan, the stages, the tables on the device, what was counted. Each
//! thread has a [`Lane`] through it: `Batcher` [adds](Lane::add) packets, `Debatcher`'s task [ticks](Lane::tick) and
//! [takes](Lane::take) what is done.
//!
//! # Order
//! A lane is a queue of batches. Those on the device and those that the CPU twins treat stand in the same queue, and only
//! its oldest batch is ever delivered; so whatever the balancer and failures do, packets leave a lane in the order in
//! which they came.
//!
//! # Loss
//! Packets stay in their lane, as they came, until their batch is [taken](Lane::take). Whatever happens to a batch before, its
//! packets can be treated again by the CPU twins, or given to [another lane](Lane::take_packets).

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

/// What the threads that run a section share.
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
    /// Lanes on the device that no thread has yet.
    spare: Lock<Vec<Connection>>,
    /// What had been counted when counts were reset.
    before: Lock<Report>,
}

/// One of a section's lanes.
struct Member {
    counters: Arc<Counters>,
    /// Where others can visit it.
    lane: Weak<BiasedMutex<Lane>>,
}

impl Section {
    /// A section that runs a plan; `stages` are those of the plan's nodes, in order. Without a source of devices the twins
    /// do all the work. Touches no device.
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

    /// Gets ready to run on so many threads: opens the device, loads tables, makes lanes on it. A section that is not
    /// prepared does so when packets come. To be called before the packets' threads start.
    ///
    /// # Errors
    /// There is no device to be had now, or what it lacks. The section runs all the same, on the CPU, and tries again.
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

    /// A lane that can be visited.
    fn shared_lane(self: &Arc<Self>) -> Arc<BiasedMutex<Lane>> {
        Arc::new_cyclic(|lane| BiasedMutex::new(self.new_lane(lane.clone())))
    }

    fn new_lane(self: &Arc<Self>, lane: Weak<BiasedMutex<Lane>>) -> Lane {
        let counters = Arc::new(Counters::default());
        self.members.lock().push(Member { counters: counters.clone(), lane });
        let connection = self.spare.lock().pop();
        Lane::new(self.clone(), counters, connection)
    }

    /// What it does with each batch.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Most packets of a batch.
    pub fn packets(&self) -> usize {
        self.settings.packets.clamp(1, self.plan.capacity.max(1))
    }

    /// Its sizes and times.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Bytes of the tables that its stages have now.
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

    /// What it has done so far, or since counts were [reset](Self::reset_counts). Stops nobody.
    pub fn report(&self) -> Report {
        let before = self.before.lock();
        let mut report = self.report_in_all();
        report.subtract(&before);
        report
    }

    /// Counts from 0 again.
    pub fn reset_counts(&self) {
        // Lanes alone write their counts.
        let mut before = self.before.lock();
        *before = self.report_in_all();
    }

    fn report_in_all(&self) -> Report {
        let mut report = Report::default();
        self.members.lock().iter().for_each(|member| report.add(&member.counters));
        report.faults[Fault::Load as usize] += self.tables.failures();
        report
    }

    /// Packets that its lanes hold.
    pub fn held(&self) -> usize {
        self.members.lock().iter().map(|member| member.counters.held.get() as usize).sum()
    }
}

/// What lanes have done.
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

    /// Which generation of the device there is now; 0 when there is none.
    fn present(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.present())
    }

    /// The time that the device lives in, in nanoseconds.
    fn device_now(&self) -> u64 {
        self.clock.now()
    }

    /// A lane on the device, with all tables there.
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

    /// Has a lane connected.
    fn connect_aside(self: &Arc<Self>, sender: SyncSender<Connected>) {
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            // Nobody waits for it any more when the lane is gone.
            let _ = sender.send(section.connect());
        }));
    }

    /// Has the stages' tables loaded that the device lacks, unless somebody does so already, or it failed just now.
    fn load_aside(self: &Arc<Self>, now: u64) {
        if !self.tables.ask(now) {
            return;
        }
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            let device = section.source.as_ref().and_then(|source| source.opened());
            let Some((generation, device)) = device else { return section.tables.not_now() };
            // The tables remember that it failed, and when to try again.
            if section.load(generation, &*device).is_err_and(|error| error.is_lost()) {
                drop(device);
                section.lost(generation);
            }
        }));
    }

    /// Takes the connection to a lost device apart, and sees to it that nobody keeps anything of it: only then can it be
    /// opened anew.
    fn dispose(self: &Arc<Self>, connection: Connection) {
        let section = self.clone();
        self.attendant.give(Box::new(move || {
            let generation = connection.generation;
            drop(connection);
            section.lost(generation);
        }));
    }

    /// Lets go of a lost device, and has all lanes do so.
    fn lost(&self, generation: u64) {
        self.tables.forget(generation);
        self.spare.lock().retain(|spare| spare.generation != generation);
        let first = self.source.as_ref().is_some_and(|source| source.lost(generation));
        // Lanes without traffic, too; but whoever does this by himself is in his own lane.
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
