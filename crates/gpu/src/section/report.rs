//! The counts of lanes, and their sums over a section.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::Count;

use super::histogram::Histogram;
use super::path::Path;
use crate::DeviceError;

/// Kinds of failures of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// The device or a lane could not be opened.
    Open,
    /// A table could not be loaded.
    Load,
    /// A batch could not be submitted.
    Submit,
    /// A batch failed.
    Step,
    /// A batch was not done in time.
    Timeout,
    /// The device was lost.
    Lost,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Open, Self::Load, Self::Submit, Self::Step, Self::Timeout, Self::Lost];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Load => "load",
            Self::Submit => "submit",
            Self::Step => "step",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
        }
    }

    /// The kind of an error. If the error says that the device is lost, it is `Lost`, and `otherwise` if not.
    pub(super) fn of(error: &DeviceError, otherwise: Self) -> Self {
        match error {
            DeviceError::Lost(_) => Self::Lost,
            _ => otherwise,
        }
    }
}

/// The counts of one path.
#[derive(Debug, Default)]
pub(super) struct PathCounters {
    /// Batches that were delivered.
    pub(super) batches: Count,
    /// Packets in them.
    pub(super) packets: Count,
    /// Cycles of the time stamp counter on the lane's thread.
    pub(super) cycles: Count,
}

/// The counts of one lane. Other threads read them at any time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) paths: [PathCounters; 2],
    pub(super) faults: [Count; Fault::ALL.len()],
    /// Batches that the twins processed because the device failed while the batches were on it.
    pub(super) again: Count,
    /// Batches meant for the device that found no free slot.
    pub(super) crowded: Count,
    /// How often the lane waited for its oldest batch because the lane was full.
    pub(super) waits: Count,
    /// Packets in the lane now.
    pub(super) held: Count,
    /// Batches that were collected and are not delivered yet.
    pub(super) under_way: Count,
    /// 1 if the lane uses the device without restriction.
    pub(super) good: Count,
    /// The number of batches per million that are meant for the device.
    pub(super) share: AtomicU32,
    /// Age of the oldest packet of each batch at its delivery, in nanoseconds.
    pub(super) age: Histogram,
}

impl Counters {
    pub(super) fn path(&self, path: Path) -> &PathCounters {
        &self.paths[path as usize]
    }

    pub(super) fn fault(&self, fault: Fault) {
        self.faults[fault as usize].add(1);
    }
}

/// The counts of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// Batches that were delivered.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Cycles of the time stamp counter on the lanes' threads.
    pub cycles: u64,
}

/// The counts of a section: the sums over its lanes.
#[derive(Debug, Default)]
pub struct Report {
    /// Threads that have a lane.
    pub lanes: usize,
    /// The lanes that use the device without restriction now, because none of their last batches failed.
    pub good: usize,
    /// What the device processed.
    pub gpu: PathReport,
    /// What the twins processed.
    pub cpu: PathReport,
    /// The number of failures of each kind, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Batches that the twins processed because the device failed while the batches were on it.
    pub again: u64,
    /// Batches meant for the device that found no free slot.
    pub crowded: u64,
    /// How often a lane waited for its oldest batch because the lane was full.
    pub waits: u64,
    /// Packets in the lanes now.
    pub held: u64,
    /// Batches that were collected and are not delivered yet.
    pub under_way: u64,
    /// The fraction of batches that is meant for the device, averaged over lanes.
    pub share: f64,
    /// Age of the oldest packet of each batch at its delivery, in nanoseconds.
    pub age: Histogram,
}

impl Report {
    pub(super) fn add(&mut self, lane: &Counters) {
        self.lanes += 1;
        self.good += lane.good.get() as usize;
        for (into, path) in [(&mut self.gpu, Path::Gpu), (&mut self.cpu, Path::Cpu)] {
            let from = lane.path(path);
            into.batches += from.batches.get();
            into.packets += from.packets.get();
            into.cycles += from.cycles.get();
        }
        for (into, from) in self.faults.iter_mut().zip(&lane.faults) {
            *into += from.get();
        }
        self.again += lane.again.get();
        self.crowded += lane.crowded.get();
        self.waits += lane.waits.get();
        self.held += lane.held.get();
        self.under_way += lane.under_way.get();
        let share = f64::from(lane.share.load(Relaxed)) / 1e6;
        self.share += (share - self.share) / self.lanes as f64;
        self.age.merge(&lane.age);
    }

    /// Subtracts earlier counts. Values that describe the present state are unchanged.
    pub(super) fn subtract(&mut self, before: &Self) {
        for (now, before) in [(&mut self.gpu, &before.gpu), (&mut self.cpu, &before.cpu)] {
            now.batches -= before.batches;
            now.packets -= before.packets;
            now.cycles -= before.cycles;
        }
        for (now, before) in self.faults.iter_mut().zip(&before.faults) {
            *now -= before;
        }
        self.again -= before.again;
        self.crowded -= before.crowded;
        self.waits -= before.waits;
        self.age.subtract(&before.age);
    }

    /// The number of failures of a kind.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
