//! A thread's way through a section: packets are [collected](collect) into batches, which are [submitted](submit) or left to
//! the twins, [watched](watch) while they are under way, and [delivered](deliver) in order.

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

/// What a batch for the twins may cost, in cycles: some 200 us.
const BUDGET: f64 = 500_000.0;

/// A thread's way through a section: collects packets, has the device or the CPU twins treat them, gives them back in order.
pub struct Lane {
    section: Arc<Section>,
    counters: Arc<Counters>,
    /// The batches that have ended, oldest first.
    queue: VecDeque<Flight>,
    /// The one that is being collected.
    open: Option<Flight>,
    /// Flights to be used again.
    spare: Vec<Flight>,
    /// Engine batches to be used again.
    tiles: Vec<Batch>,
    /// Packets of a lane whose place this one has taken: they go first.
    inherited: VecDeque<Batch>,
    link: Link,
    /// Whether the device has failed, and has done no batch since.
    failed: bool,
    balancer: Balancer,
    tables: Arc<Resident>,
    tables_version: u64,
    /// Since when the tables on the device are not the newest ones.
    stale_since: Option<u64>,
    /// Whether a batch has been on the device: what is changed before the first one holds for it.
    launched: bool,
    /// Packets held, and bytes of them.
    packets: usize,
    bytes: usize,
    /// Batches on the device.
    flying: usize,
    /// Whether packets have come since the last tick.
    added: bool,
    /// Whether packets have found no room since the last batch was taken.
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
        // In this order: tables that are newer than their version are only read once more.
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

    /// Packets that it holds.
    pub fn held(&self) -> usize {
        self.packets + self.inherited.iter().map(|batch| batch.len()).sum::<usize>()
    }

    /// Whether the device has failed, and has done no batch since.
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
