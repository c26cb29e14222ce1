//! A thread's lane through a section: packets are [collected](collect) into batches. Batches are [submitted](submit)
//! or left to the twins, [watched](watch) while they are in flight, and [delivered](deliver) in order.

mod collect;
mod deliver;
mod submit;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use millrace_core::Batch;

use super::Section;
use super::balance::Balancer;
use super::flight::Flight;
use super::recovery::{Connection, Link};
use super::report::Counters;
use super::tables::Resident;

/// The maximum cost of a batch for the twins, in cycles: some 200 us.
const BUDGET: f64 = 500_000.0;

/// A thread's lane through a section. It collects packets, lets the device or the CPU twins process them, and returns
/// them in order.
pub struct Lane {
    section: Arc<Section>,
    counters: Arc<Counters>,
    /// The batches that were collected, oldest first.
    queue: VecDeque<Flight>,
    /// The batch that is being collected.
    open: Option<Flight>,
    /// Flights for reuse.
    spare: Vec<Flight>,
    /// Engine batches for reuse.
    tiles: Vec<Batch>,
    /// Packets of a lane that this one replaces. They are processed first.
    inherited: VecDeque<Batch>,
    link: Link,
    /// True if the device has failed, and has finished no batch since.
    failed: bool,
    balancer: Balancer,
    tables: Arc<Resident>,
    tables_version: u64,
    /// The time since when the tables on the device are outdated.
    stale_since: Option<u64>,
    /// True if a batch has been on the device. Changes before the first one apply to it.
    launched: bool,
    /// The number of packets in the lane, and of their bytes.
    packets: usize,
    bytes: usize,
    /// Batches on the device.
    flying: usize,
    /// True if packets were added since the last tick.
    added: bool,
    /// True if packets found no room since the last batch was taken.
    full: bool,
}

impl Lane {
    pub(super) fn new(
        section: Arc<Section>,
        counters: Arc<Counters>,
        connection: Option<Connection>,
    ) -> Self {
        let settings = section.settings();
        let interval = u64::try_from(settings.interval.as_nanos()).unwrap_or(u64::MAX);
        let balancer = Balancer::new(interval, settings.probe, BUDGET);
        // In this order: if the tables are newer than the version, they are only read once more.
        let (tables_version, tables) = (section.tables().version(), section.tables().resident());
        Self {
            tables,
            tables_version,
            section,
            counters,
            queue: VecDeque::new(),
            open: None,
            spare: Vec::new(),
            tiles: Vec::new(),
            inherited: VecDeque::new(),
            link: Link::new(connection),
            failed: false,
            balancer,
            stale_since: None,
            launched: false,
            packets: 0,
            bytes: 0,
            flying: 0,
            added: false,
            full: false,
        }
    }

    /// The number of packets in the lane.
    pub fn held(&self) -> usize {
        self.packets + self.inherited.iter().map(|batch| batch.len()).sum::<usize>()
    }

    /// True if the device has failed, and has finished no batch since.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn count_held(&self) {
        self.counters.held.set(self.held() as u64);
        self.counters.under_way.set(self.queue.len() as u64);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.counters.held.set(0);
        self.counters.under_way.set(0);
    }
}
