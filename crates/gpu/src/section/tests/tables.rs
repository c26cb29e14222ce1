//! Tables that take their time, and such as do not fit.

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

/// What becomes of tables that are loaded.
const ARRIVE: u8 = 0;
const LINGER: u8 = 1;
const FAIL: u8 = 2;

/// A device on which tables arrive when the test says so.
struct Slow {
    device: Arc<dyn Device>,
    tables: Arc<AtomicU8>,
    /// Words of tables that were made of others.
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
fn batches_have_the_old_table_until_the_new_one_is_there_but_not_for_ever() {
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
        // Batches that were to be the device's are more than the twins treat at a time.
        faults.at(faults.batches() + 5, Point::Launch(0), host::Fault::Fail);
        routes.restless.store(true, Ordering::Relaxed);
        traffic.run(cx, &mut lane, true, |_, _| section.report().again > 0);
        traffic.drain(cx, &mut lane, true);
        assert!(traffic.epochs.last() > Some(&1), "routes changed");
    });
}

#[test]
fn a_table_that_is_not_there_is_no_fault_of_the_link() {
    in_context(|cx| {
        let tables = Arc::new(AtomicU8::new(ARRIVE));
        let settings =
            Settings { mode: Mode::Gpu, slots: 1, patience: LONG, ..Settings::default() };
        let (section, routes) = section(Slow::source(&tables, &Arc::default()), false, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(4);
        // One on the device, one that waits for its slot, one that is collected.
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
fn changes_arrive_whole_though_only_what_has_changed_is_loaded() {
    in_context(|cx| {
        let faults = Faults::none();
        let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
        let (section, routes) = section(source(&faults, 9), true, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(9);
        // What changes before the first batch has been on the device is left to the twins.
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
