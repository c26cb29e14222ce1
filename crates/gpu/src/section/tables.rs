//! The stages' tables on the device.
//!
//! When a stage's table changes, the new one is loaded while batches use the old one. Batches that are submitted
//! after it has arrived use the new one. The old one is freed with the last batch that uses it. If a table cannot be
//! loaded, both the old and the new one are freed, so that there is memory for the next attempt. Until an attempt
//! succeeds, the CPU processes all batches.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_core::Lock;

use super::recovery::Backoff;
use crate::device::Old;
use crate::table::Changes;
use crate::{Device, DeviceError, Snapshot, Stage, StageTable, Table};

/// The tables of a plan's launches that are on a device at one moment.
#[derive(Debug, Default)]
pub(super) struct Resident {
    /// The generation of the device.
    pub(super) generation: u64,
    /// The tables, in the order of the launches that have one.
    pub(super) tables: Vec<Table>,
    /// For each table, the stage and the epoch.
    pub(super) epochs: Vec<(usize, u64)>,
    /// The number of words of each table.
    pub(super) words: Vec<usize>,
    /// The snapshots for results that are computed from them, by stage.
    pub(super) snapshots: Vec<Snapshot>,
    /// True if all tables are there.
    pub(super) complete: bool,
}

impl Resident {
    /// True if these are the newest tables of the stages.
    pub(super) fn is_newest(&self, stages: &[Arc<dyn Stage>]) -> bool {
        self.epochs.iter().all(|&(stage, epoch)| {
            let newest = stages.get(stage).and_then(|stage| stage.table());
            newest.is_some_and(|newest| newest.epoch == epoch)
        })
    }
}

impl Resident {
    /// The table of a stage, with its epoch and its length in words, if it is on the device of this generation.
    fn of(&self, generation: u64, stage: usize) -> Option<(&Table, u64, usize)> {
        let at = self.epochs.iter().position(|known| known.0 == stage)?;
        let (table, &(_, epoch)) = (self.tables.get(at)?, self.epochs.get(at)?);
        (self.generation == generation).then_some((table, epoch, *self.words.get(at)?))
    }
}

/// The tables, shared by the lanes.
#[derive(Default)]
pub(super) struct Tables {
    resident: Lock<Arc<Resident>>,
    /// Increases when `resident` changes.
    version: AtomicU64,
    /// Locked while tables are loaded.
    loading: Lock<Backoff>,
    asked: AtomicBool,
    /// The time from which loading may be tried again.
    again_at: AtomicU64,
    failures: AtomicU64,
}

impl Tables {
    /// A number that changes with every change of the resident tables.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The tables that are on the device now.
    pub(super) fn resident(&self) -> Arc<Resident> {
        self.resident.lock().clone()
    }

    /// The number of failed attempts to load.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// True if the caller should load the tables: nobody else is doing it, and the pause is over.
    pub(super) fn ask(&self, now: u64) -> bool {
        self.again_at.load(Ordering::Relaxed) <= now && !self.asked.swap(true, Ordering::AcqRel)
    }

    /// Loads the newest tables of the stages that the device lacks, `count` of them, and waits until they have
    /// arrived, for at most some seconds.
    ///
    /// # Errors
    /// Not all could be loaded.
    pub(super) fn load(
        &self,
        generation: u64,
        device: &dyn Device,
        stages: &[Arc<dyn Stage>],
        count: usize,
        now: u64,
    ) -> Result<(), DeviceError> {
        let mut backoff = self.loading.lock();
        let old = self.resident();
        let known = |stage, epoch| {
            let same = old.generation == generation;
            let at = old.epochs.iter().position(|&known| same && known == (stage, epoch))?;
            old.tables.get(at).cloned()
        };
        let mut new = Resident { generation, complete: true, ..Resident::default() };
        let mut loaded = Ok(());
        for (index, stage) in stages.iter().enumerate() {
            let Some(StageTable { epoch, words, changes, snapshot }) = stage.table() else {
                new.snapshots.push(Snapshot::default());
                continue;
            };
            new.snapshots.push(snapshot);
            let table = match known(index, epoch) {
                Some(table) => Ok(table),
                None => {
                    begin(device, &words, &changes, old.of(generation, index)).and_then(arrived)
                }
            };
            match table {
                Ok(table) => {
                    new.tables.push(table);
                    new.words.push(words.len());
                    new.epochs.push((index, epoch));
                }
                Err(error) => {
                    new.complete = false;
                    loaded = Err(error);
                    break;
                }
            }
        }
        if loaded.is_ok() && new.tables.len() != count {
            new.complete = false;
            loaded = Err(DeviceError::Step("a stage has no table".to_owned()));
        }
        match &loaded {
            Ok(()) => backoff.reset(),
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                self.again_at.store(now.saturating_add(backoff.next()), Ordering::Relaxed);
            }
        }
        *self.resident.lock() = Arc::new(new);
        self.version.fetch_add(1, Ordering::Release);
        self.asked.store(false, Ordering::Release);
        loaded
    }

    /// Releases the tables on a device that is lost.
    pub(super) fn forget(&self, generation: u64) {
        let mut resident = self.resident.lock();
        if resident.generation == generation {
            *resident = Arc::default();
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that a requested load does not happen, because there is no device.
    pub(super) fn not_now(&self) {
        self.asked.store(false, Ordering::Release);
    }
}

/// Begins to load a table. If the changes since the resident one are known, only these are uploaded.
fn begin(
    device: &dyn Device,
    words: &Arc<Vec<u32>>,
    changes: &Changes,
    old: Option<(&Table, u64, usize)>,
) -> Result<Table, DeviceError> {
    if let Some((table, epoch, count)) = old
        && let Some(changed) = changes.since(epoch)
        && count <= words.len()
        && changed.iter().map(Range::len).sum::<usize>() < words.len() / 2
    {
        return device.load_changed(words, Old { table, words: count, changed: &changed });
    }
    device.load_table(words)
}

/// Waits until a table has arrived.
fn arrived(table: Table) -> Result<Table, DeviceError> {
    /// Longer than the largest table takes on the slowest bus.
    const MOST: Duration = Duration::from_secs(5);
    /// A megabyte takes some 20 us over PCIe.
    const LOOK: Duration = Duration::from_micros(20);
    let began = Instant::now();
    while !table.is_resident()? {
        if began.elapsed() > MOST {
            return Err(DeviceError::Step("a table does not arrive".to_owned()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(table)
}
