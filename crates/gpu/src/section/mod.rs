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

mod histogram;
#[allow(dead_code, reason = "bodies follow")]
mod lane;
mod lanes;
mod report;
mod settings;
mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::Lock;

pub use self::histogram::Histogram;
pub use self::lane::Lane;
pub use self::lanes::Lanes;
pub use self::report::{Fault, PathReport, Report};
pub use self::settings::{Mode, Settings};
pub use self::source::{Open, Source};

use self::report::Counters;
use crate::plan::Plan;
use crate::{Caps, DeviceError, Stage};

/// The way that a batch takes through a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Path {
    /// The device.
    Gpu,
    /// The CPU twins.
    Cpu,
}

/// What the threads that run a section share.
pub struct Section {
    plan: Arc<Plan>,
    stages: Vec<Arc<dyn Stage>>,
    source: Option<Arc<Source>>,
    settings: Settings,
    mode: AtomicU8,
    lanes: Lock<Vec<Arc<Counters>>>,
}

impl Section {
    /// A section that runs a plan; `stages` are those of the plan's nodes, in order. Without a source of devices the twins do
    /// all the work. Touches no device.
    pub fn new(
        plan: Arc<Plan>,
        stages: Vec<Arc<dyn Stage>>,
        source: Option<Arc<Source>>,
        settings: Settings,
    ) -> Arc<Self> {
        let mode = AtomicU8::new(settings.mode as u8);
        Arc::new(Self { plan, stages, source, settings, mode, lanes: Lock::default() })
    }

    /// Gets ready to run on so many threads: opens the device, loads tables, makes lanes on it. A section that is not
    /// prepared does so when packets come.
    ///
    /// # Errors
    /// There is no device to be had now. The section runs all the same, on the CPU, and tries again.
    pub fn prepare(self: &Arc<Self>, lanes: usize) -> Result<Caps, DeviceError> {
        let _ = lanes;
        let source = self.source.as_ref();
        let none = || DeviceError::Unsupported("the section has no device".to_owned());
        Ok(source.ok_or_else(none)?.device()?.1.caps().clone())
    }

    /// A lane through the section, for one thread.
    pub fn lane(self: &Arc<Self>) -> Lane {
        let counters = Arc::new(Counters::default());
        self.lanes.lock().push(counters.clone());
        Lane::new(self.clone(), counters)
    }

    /// What it does with each batch.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Its sizes and times.
    pub fn settings(&self) -> &Settings {
        &self.settings
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

    /// What it has done so far. Stops nobody.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        self.lanes.lock().iter().for_each(|lane| report.add(lane));
        report
    }

    /// Packets that its lanes hold.
    pub fn held(&self) -> usize {
        self.lanes.lock().iter().map(|lane| lane.held.get() as usize).sum()
    }
}
