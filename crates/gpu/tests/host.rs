//! The host backend: both modes do what the plan says; the simulator fails as it is told and in no other way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use fastrand::Rng;
use millrace_gpu::host::{Call, Fast, Fault, Faults, Point, Settings, Simulator};
use millrace_gpu::{Device, DeviceError, DeviceLane, Poll, SlotId};
use proptest::prelude::*;

fn simulator(faults: &Faults) -> Arc<dyn Device> {
    Simulator::new(Settings::default(), faults.clone()).open().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fast_mode_does_what_the_plan_says(seed: u64, payload: bool) {
        device_agrees_with_oracle(&Fast::open(""), seed, payload);
    }

    #[test]
    fn the_simulator_does_what_the_plan_says(seed: u64, payload: bool) {
        let faults = Faults::none();
        device_agrees_with_oracle(&simulator(&faults), seed, payload);
        prop_assert_eq!(faults.violations(), Vec::<String>::new());
    }
}

#[test]
fn tables_are_made_of_other_tables() {
    tables_are_made_of_others(&Fast::open(""));
    tables_are_made_of_others(&simulator(&Faults::none()));
}

#[test]
fn tables_live_as_long_as_batches_that_use_them() {
    tables_live_as_long_as_their_batches(&Fast::open(""));
    tables_live_as_long_as_their_batches(&simulator(&Faults::none()));
}

#[test]
fn patterns_are_found() {
    patterns_agree_with_fast_mode(&simulator(&Faults::none()));
}

#[test]
fn wrong_submissions_are_rejected() {
    refusals_leave_the_lane_as_it_was(&Fast::open(""), &Fast::open(""));
    refusals_leave_the_lane_as_it_was(&simulator(&Faults::none()), &simulator(&Faults::none()));
}

/// A lane with a plan of one launch, its table, and batches in all its slots.
struct Lookups {
    lane: Box<dyn DeviceLane>,
    table: millrace_gpu::Table,
    rng: Rng,
}

impl Lookups {
    fn new(device: &Arc<dyn Device>) -> Self {
        let table = device.load_table(&lookup_table(9)).unwrap();
        wait_resident(&table);
        let lane = device.open_lane(&lookup_plan().0, 3).unwrap();
        Self { lane, table, rng: Rng::with_seed(3) }
    }

    fn submit(&mut self, slot: usize) -> millrace_gpu::Ticket {
        lookup(&mut *self.lane, &self.table, slot, &mut self.rng)
    }

    fn succeeds(&mut self, slot: usize) {
        let ticket = self.submit(slot);
        assert_eq!(wait(&mut *self.lane, ticket), Poll::Done);
        check_lookup(&mut *self.lane, slot, 9);
    }
}

#[test]
fn kernels_can_be_timed_alone() {
    // Another table: the results show that the kernels ran, in every slot.
    let device = Fast::open("");
    let mut lookups = Lookups::new(&device);
    (0..3).for_each(|slot| lookups.succeeds(slot));
    let other = device.load_table(&lookup_table(4)).unwrap();
    let took = lookups.lane.time_kernels(1024, 0, std::slice::from_ref(&other), 5).unwrap();
    assert!(took > Duration::ZERO);
    (0..3).for_each(|slot| check_lookup(&mut *lookups.lane, slot, 4));
    assert!(lookups.lane.time_kernels(1 << 20, 0, &[other], 5).is_err(), "too many rows");
}

#[test]
fn the_simulator_times_no_kernels() {
    let mut lookups = Lookups::new(&simulator(&Faults::none()));
    lookups.succeeds(0);
    let table = lookups.table.clone();
    let refused = lookups.lane.time_kernels(1024, 0, &[table], 1);
    assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{refused:?}");
}

const POINTS: [Point; 4] = [Point::CopyIn, Point::Launch(0), Point::CopyOut, Point::Completion];

#[test]
fn a_failed_step_fails_only_its_batch() {
    for point in POINTS {
        let faults = Faults::none();
        let device = simulator(&faults);
        let mut lookups = Lookups::new(&device);
        faults.at(1, point, Fault::Fail);
        let tickets = [0, 1, 2].map(|slot| lookups.submit(slot));
        let ends = tickets.map(|ticket| wait(&mut *lookups.lane, ticket));
        assert_eq!(ends[0], Poll::Done, "{point:?}");
        assert!(matches!(&ends[1], Poll::Failed(DeviceError::Step(_))), "{point:?}: {ends:?}");
        assert_eq!(ends[2], Poll::Done, "{point:?}");
        check_lookup(&mut *lookups.lane, 0, 9);
        check_lookup(&mut *lookups.lane, 2, 9);
        lookups.succeeds(1);
        assert_eq!(faults.injected(), 1);
    }
}

#[test]
fn a_late_batch_is_complete_and_keeps_its_slot_until_then() {
    for point in POINTS {
        let faults = Faults::none();
        let mut lookups = Lookups::new(&simulator(&faults));
        // Longer than this thread is interrupted for.
        let late = Duration::from_millis(500);
        faults.at(0, point, Fault::Late(late));
        let start = Instant::now();
        let ticket = lookups.submit(0);
        assert!(lookups.lane.block(SlotId(0)).is_none(), "the device writes to it");
        assert!(lookups.lane.submit(SlotId(0), 1, 0, &[lookups.table.clone()]).is_err());
        assert!(!lookups.lane.quiesce(Duration::from_millis(1)));
        assert!(lookups.lane.block(SlotId(0)).is_none(), "not even when given up");
        assert!(lookups.lane.quiesce(Duration::from_secs(60)));
        assert!(start.elapsed() >= late);
        assert_eq!(lookups.lane.poll(ticket), Poll::Done);
        check_lookup(&mut *lookups.lane, 0, 9);
    }
}

#[test]
fn a_batch_that_hangs_stops_only_its_lane() {
    for point in POINTS {
        let faults = Faults::none();
        let device = simulator(&faults);
        let mut hanging = Lookups::new(&device);
        faults.at(0, point, Fault::Hang);
        let tickets = [hanging.submit(0), hanging.submit(1)];
        assert!(!hanging.lane.quiesce(Duration::from_millis(5)));
        for ticket in tickets {
            assert_eq!(hanging.lane.poll(ticket), Poll::Pending);
            assert!(hanging.lane.block(ticket.slot).is_none());
        }
        let mut other = Lookups::new(&device);
        other.succeeds(0);
        drop(hanging);
        other.succeeds(1);
    }
}

#[test]
fn a_device_that_never_finishes_with_a_dropped_lane_is_lost() {
    // Longer than this thread is interrupted for before it has opened the next lane.
    let settings = Settings { patience: Duration::from_millis(500), ..Settings::default() };
    let faults = Faults::none();
    let simulator = Simulator::new(settings, faults.clone());
    let device = simulator.open().unwrap();
    faults.at(0, Point::Launch(0), Fault::Hang);
    let mut lookups = Lookups::new(&device);
    lookups.submit(0);
    drop(lookups);
    drop(device.open_lane(&lookup_plan().0, 1).unwrap());
    let start = Instant::now();
    while !device.is_lost() {
        assert!(start.elapsed() < Duration::from_secs(60), "it is not given up");
        std::thread::sleep(Duration::from_millis(20));
        let _ = device.open_lane(&lookup_plan().0, 1);
    }
    drop(device);
    Lookups::new(&opened_again(&simulator)).succeeds(0);
}

/// A lost device is away for a moment.
fn opened_again(simulator: &Simulator) -> Arc<dyn Device> {
    let start = Instant::now();
    loop {
        match simulator.open() {
            Ok(device) => return device,
            Err(why) => assert!(start.elapsed() < Duration::from_secs(60), "{why:?}"),
        }
    }
}

#[test]
fn a_lost_device_fails_until_it_is_opened_anew() {
    for point in POINTS {
        let faults = Faults::none();
        let simulator = Simulator::new(Settings::default(), faults.clone());
        let device = simulator.open().unwrap();
        let (mut first, mut second) = (Lookups::new(&device), Lookups::new(&device));
        faults.at(1, point, Fault::Lose);
        let tickets = [first.submit(0), first.submit(1)];
        let lost = |poll: Poll| matches!(poll, Poll::Failed(DeviceError::Lost(_)));
        assert_eq!(wait(&mut *first.lane, tickets[0]), Poll::Done);
        assert!(lost(wait(&mut *first.lane, tickets[1])), "{point:?}");
        assert!(device.is_lost());
        let (table, plan) = (first.table.clone(), lookup_plan().0);
        let error = second.lane.submit(SlotId(0), 1, 0, &[table]).unwrap_err();
        assert!(error.is_lost(), "{error}");
        assert!(device.load_table(&lookup_table(1)).unwrap_err().is_lost());
        assert!(device.open_lane(&plan, 1).is_err());
        assert!(!first.lane.quiesce(Duration::from_millis(2)), "nobody is sure");
        assert!(first.lane.block(SlotId(1)).is_none());
        assert!(lost(first.lane.poll(tickets[1])), "still");
        check_lookup(&mut *first.lane, 0, 9);
        assert!(simulator.open().is_err(), "it is in use");
        let left = first.table.clone();
        drop((device, first, second));
        let again = opened_again(&simulator);
        let mut lookups = Lookups::new(&again);
        let error = lookups.lane.submit(SlotId(0), 1, 0, &[left]).unwrap_err();
        assert!(matches!(error, DeviceError::Step(_)), "a table of the lost device: {error}");
        lookups.succeeds(0);
    }
}

#[test]
fn calls_can_fail_for_lack_of_memory() {
    let faults = Faults::none();
    let device = simulator(&faults);
    let out = |error: DeviceError| assert!(matches!(error, DeviceError::OutOfMemory(_)), "{error}");
    faults.refuse(Call::Table, 0);
    out(device.load_table(&lookup_table(1)).unwrap_err());
    faults.refuse(Call::Lane, 0);
    out(device.open_lane(&lookup_plan().0, 1).err().unwrap());
    let mut lookups = Lookups::new(&device);
    faults.refuse(Call::Submit, 0);
    out(lookups.lane.submit(SlotId(0), 1, 0, &[lookups.table.clone()]).unwrap_err());
    lookups.succeeds(0);
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let settings = Settings { memory: 100_000, ..Settings::default() };
    let device = Simulator::new(settings, Faults::none()).open().unwrap();
    let plan = lookup_plan().0;
    for _ in 0..20 {
        let lane = device.open_lane(&plan, 6).unwrap();
        assert!(matches!(device.open_lane(&plan, 6).err(), Some(DeviceError::OutOfMemory(_))));
        assert!(matches!(
            device.load_table(&Arc::new(vec![0; 20_000])),
            Err(DeviceError::OutOfMemory(_))
        ));
        drop(lane);
    }
    drop(device.load_table(&Arc::new(vec![0; 20_000])).unwrap());
}

#[test]
fn lanes_go_on_through_random_faults() {
    for seed in 0..6 {
        let faults = Faults::none();
        let settings = Settings { seed, patience: Duration::from_millis(2), ..Settings::default() };
        let simulator =
            Simulator::new(Settings { down: Duration::ZERO, ..settings }, faults.clone());
        faults.random(0.03, seed);
        let (mut done, mut failed, mut lost) = (0, 0, 0);
        let start = Instant::now();
        while done < 150 {
            assert!(start.elapsed() < Duration::from_secs(60));
            let Ok(device) = simulator.open() else { continue };
            let Ok(table) = device.load_table(&lookup_table(9)) else { continue };
            while matches!(table.is_resident(), Ok(false)) {}
            let Ok(lane) = device.open_lane(&lookup_plan().0, 3) else { continue };
            let mut lookups = Lookups { lane, table, rng: Rng::with_seed(seed) };
            'lane: loop {
                let mut tickets = Vec::new();
                for slot in 0..3 {
                    if device.is_lost() || !lookups.table.is_resident().unwrap_or(false) {
                        break 'lane;
                    }
                    let block = lookups.lane.block(SlotId(slot));
                    if block.is_none() {
                        break 'lane;
                    }
                    let (lane, table) = (&mut *lookups.lane, lookups.table.clone());
                    match lane.submit(SlotId(slot), 1024, 0, &[table]) {
                        Ok(ticket) => tickets.push(ticket),
                        Err(_) => break 'lane,
                    }
                }
                let all = lookups.lane.quiesce(Duration::from_millis(20));
                for ticket in tickets {
                    match lookups.lane.poll(ticket) {
                        Poll::Done => done += 1,
                        Poll::Failed(error) if error.is_lost() => lost += 1,
                        Poll::Failed(_) => failed += 1,
                        Poll::Pending => assert!(!all),
                    }
                }
                if done >= 150 {
                    break;
                }
            }
        }
        assert!(failed > 0 && faults.injected() > 0, "{done} {failed} {lost}");
        assert!(faults.violations().is_empty());
    }
}
