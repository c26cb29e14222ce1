//! What lanes count, and the sum of it over a section.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::Count;

use super::histogram::Histogram;
use super::path::Path;
use crate::DeviceError;

/// What went wrong with a device, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// It could not be opened, or no lane on it.
    Open,
    /// A table could not be loaded.
    Load,
    /// A batch was not submitted.
    Submit,
    /// A batch failed.
    Step,
    /// A batch was not done in time.
    Timeout,
    /// The device was lost.
    Lost,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Open, Self::Load, Self::Submit, Self::Step, Self::Timeout, Self::Lost];

    /// The word for it in reports.
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

    /// The fault that an error is, which is another one when it says that the device is lost.
    pub(super) fn of(error: &DeviceError, otherwise: Self) -> Self {
        match error {
            DeviceError::Lost(_) => Self::Lost,
            _ => otherwise,
        }
    }
}

/// What was done by one path.
#[derive(Debug, Default)]
pub(super) struct PathCounters {
    /// Batches delivered.
    pub(super) batches: Count,
    /// Packets in them.
    pub(super) packets: Count,
    /// Cycles of the time stamp counter that they cost the lane's thread.
    pub(super) cycles: Count,
}

/// What one lane counts; others read it at any time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) paths: [PathCounters; 2],
    pub(super) faults: [Count; Fault::ALL.len()],
    /// Batches that the twins treated because the device failed while they were on it.
    pub(super) again: Count,
    /// Batches meant for the device that found no free slot.
    pub(super) crowded: Count,
    /// Times that the lane waited for its oldest batch, because it was full.
    pub(super) waits: Count,
    /// Packets that the lane holds now.
    pub(super) held: Count,
    /// Batches that have ended and are not delivered.
    pub(super) under_way: Count,
    /// 1 when the lane may use the device without reserve.
    pub(super) good: Count,
    /// Of a million batches as many are meant for the device.
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

/// What a path has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// Batches delivered.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Cycles of the time stamp counter that they cost the lanes' threads.
    pub cycles: u64,
}

/// What a section has done so far: the sum over its lanes.
#[derive(Debug, Default)]
pub struct Report {
    /// Threads that have a lane.
    pub lanes: usize,
    /// Those of them that use the device without reserve now, none of their last batches having failed.
    pub good: usize,
    /// Packets delivered after the device's work.
    pub gpu: PathReport,
    /// Packets delivered after the twins' work.
    pub cpu: PathReport,
    /// How often each thing went wrong, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Batches that the twins treated because the device failed while they were on it.
    pub again: u64,
    /// Batches meant for the device that found no free slot.
    pub crowded: u64,
    /// Times that a lane waited for its oldest batch, because it was full.
    pub waits: u64,
    /// Packets that lanes hold now.
    pub held: u64,
    /// Batches that have ended and are not delivered.
    pub under_way: u64,
    /// The part of batches that is meant for the device, on average over lanes.
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

    /// Takes away what had been counted before; what is a state stays as it is.
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

    /// How often something went wrong.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
