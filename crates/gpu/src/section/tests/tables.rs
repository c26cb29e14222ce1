//! Tables that take long to load, and tables that do not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::super::{Fault, Mode, Settings, Source};
use super::bench::{CAPACITY, EPOCHS, LONG, PREFIXES, Traffic, in_context, section};
use super::faults::source;
use crate::device::{DeviceId, Old, TableMemory};
use crate::host::{self, Fast, Faults, Point};
use crate::plan::Plan;
use crate::{Caps, Device, DeviceError, DeviceLane, Table};

/// What happens to tables that are loaded.
const ARRIVE: u8 = 0;
const LINGER: u8 = 1;
const FAIL: u8 = 2;

/// A device on which tables arrive when the test says so.
struct Slow {
    device: Arc<dyn Device>,
    tables: Arc<AtomicU8>,
    /// The number of words of tables that were made from others.
    changed: Arc<AtomicUsize>,
}

impl Slow {
    fn source(tables: &Arc<AtomicU8>, changed: &Arc<AtomicUsize>) -> Option<Arc<Source>> {
        let (tables, changed) = (tables.clone(), changed.clone());
        let open = move || -> Result<Arc<dyn Device>, DeviceError> {
            let (tables, changed) = (tables.clone(), changed.clone());
            Ok(Arc::new(Self { device: Fast::open(""), tables, changed }))
        };
        Some(Source::new(Box::new(open)))
    }
}

struct SlowTable {
    table: Table,
    tables: Arc<AtomicU8>,
    here: AtomicBool,
}

impl Device for Slow {
    fn caps(&self) -> &Caps {
        self.device.caps()
    }

    fn id(&self) -> DeviceId {
        self.device.id()
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        if self.tables.load(Ordering::Relaxed) == FAIL {
            return Err(DeviceError::OutOfMemory("injected".to_owned()));
        }
        let table = self.device.load_table(words)?;
        Ok(Table::new(Arc::new(SlowTable {
            table,
            tables: self.tables.clone(),
            here: AtomicBool::new(false),
        })))
    }

    fn load_changed(&self, words: &Arc<Vec<u32>>, old: Old<'_>) -> Result<Table, DeviceError> {
        let count = old.changed.iter().map(|range| range.len()).sum();
        self.changed.fetch_add(count, Ordering::Relaxed);
        self.load_table(words)
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        self.device.open_lane(plan, slots)
    }
}

impl TableMemory for SlowTable {
    fn device(&self) -> DeviceId {
        self.table.device()
    }

    fn address(&self) -> u64 {
        self.table.address()
    }

    fn is_resident(&self) -> Result<bool, DeviceError> {
        let arrives = self.tables.load(Ordering::Relaxed) == ARRIVE;
        Ok(self.here.fetch_or(arrives, Ordering::Relaxed) || arrives)
    }
}

#[test]
fn batches_use_the_old_table_until_the_new_one_arrives_for_a_limited_time() {
    in_context(|cx| {
        let tables = Arc::new(AtomicU8::new(ARRIVE));
        let changed = Arc::new(AtomicUsize::new(0));
        let patience = Duration::from_millis(200);
        let settings = Settings { mode: Mode::Gpu, patience, ..Settings::default() };
        let (section, routes) = section(Slow::source(&tables, &changed), true, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(1);
        let by_cpu = || section.report().cpu.packets;
        let newest = |epoch| move |traffic: &Traffic, _: &_| traffic.epochs.last() == Some(&epoch);
        traffic.run(cx, &mut lane, true, newest(0));

        tables.store(LINGER, Ordering::Relaxed);
        routes.change();
        let began = Instant::now();
        let came = traffic.came();
        traffic.run(cx, &mut lane, true, |traffic, _| traffic.came() > came + 3000);
        if began.elapsed() < patience {
            assert_eq!((traffic.epochs.last(), by_cpu()), (Some(&0), 0), "the old table");
        }
        traffic.run(cx, &mut lane, true, newest(1));
        assert!(began.elapsed() >= patience);
        assert!(by_cpu() > 0, "the twins have the new one");
        assert_eq!(changed.load(Ordering::Relaxed), usize::from(PREFIXES), "a word a route");
        tables.store(ARRIVE, Ordering::Relaxed);
        let by_device = section.report().gpu.packets;
        traffic.run(cx, &mut lane, true, |_, _| section.report().gpu.packets > by_device + 3000);

        tables.store(FAIL, Ordering::Relaxed);
        routes.change();
        traffic.run(cx, &mut lane, true, |_, _| section.report().fault(Fault::Load) > 2);
        traffic.run(cx, &mut lane, true, newest(2));
        let by_device = section.report().gpu.packets;
        let came = traffic.came();
        traffic.run(cx, &mut lane, true, |traffic, _| traffic.came() > came + 3000);
        assert_eq!(section.report().gpu.packets, by_device, "there is no table to use");
        tables.store(ARRIVE, Ordering::Relaxed);
        traffic.run(cx, &mut lane, true, |_, _| section.report().gpu.packets > by_device + 3000);
        assert_eq!(traffic.epochs.last(), Some(&2));
        traffic.drain(cx, &mut lane, true);
    });
}

#[test]
fn a_batch_sees_one_epoch_when_the_twins_treat_it_too() {
    in_context(|cx| {
        let faults = Faults::none();
        let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
        let (section, routes) = section(source(&faults, 1), true, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(3);
        // Batches for the device are larger than those for the twins.
        faults.at(faults.batches() + 5, Point::Launch(0), host::Fault::Fail);
        routes.restless.store(true, Ordering::Relaxed);
        traffic.run(cx, &mut lane, true, |_, _| section.report().again > 0);
        traffic.drain(cx, &mut lane, true);
        assert!(traffic.epochs.last() > Some(&1), "routes changed");
    });
}

#[test]
fn a_missing_table_does_not_suspend_the_connection() {
    in_context(|cx| {
        let tables = Arc::new(AtomicU8::new(ARRIVE));
        let settings =
            Settings { mode: Mode::Gpu, slots: 1, patience: LONG, ..Settings::default() };
        let (section, routes) = section(Slow::source(&tables, &Arc::default()), false, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(4);
        // One is on the device, one waits for its slot, one is collected.
        while lane.held() <= 2 * CAPACITY {
            traffic.push(cx, &mut lane);
        }
        tables.store(FAIL, Ordering::Relaxed);
        routes.change();
        lane.flush();
        traffic.push(cx, &mut lane);
        let began = Instant::now();
        while section.report().fault(Fault::Load) == 0 {
            assert!(began.elapsed() < LONG);
            std::thread::yield_now();
        }
        lane.flush();
        traffic.push(cx, &mut lane);
        traffic.run(cx, &mut lane, false, |traffic, _| traffic.came() > 2 * CAPACITY as u32);
        traffic.drain(cx, &mut lane, false);
        assert_eq!(section.report().fault(Fault::Submit), 0);
    });
}

#[test]
fn a_changed_table_is_complete_although_only_changes_are_loaded() {
    in_context(|cx| {
        let faults = Faults::none();
        let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
        let (section, routes) = section(source(&faults, 9), true, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(9);
        // Changes before the first batch has been on the device are left to the twins.
        traffic.run(cx, &mut lane, true, |traffic, _| traffic.epochs.last() == Some(&0));
        for epoch in 1..EPOCHS {
            routes.change();
            traffic.run(cx, &mut lane, true, |traffic, _| {
                traffic.epochs.last() == Some(&(epoch as u32))
            });
        }
        traffic.drain(cx, &mut lane, true);
        assert_eq!(section.report().cpu.packets, 0, "it is the device that sees them");
    });
}
