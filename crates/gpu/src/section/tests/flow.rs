//! A device without faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millrace_core::Batch;

use super::super::{Lanes, Mode, Settings, Source};
use super::bench::{CAPACITY, LONG, Traffic, in_context, section};
use crate::host::{self, Fast, Faults, Simulator};

pub(super) fn fast() -> Option<Arc<Source>> {
    Some(Source::new(Box::new(|| Ok(Fast::open("")))))
}

fn simulator(seed: u64) -> Option<Arc<Source>> {
    let settings = host::Settings { seed, ..host::Settings::default() };
    Some(Source::new(Box::new(Simulator::new(settings, Faults::none()).opener())))
}

#[test]
fn packets_leave_in_order_with_their_results_by_either_way() {
    for mode in [Mode::Adaptive, Mode::Gpu, Mode::Cpu] {
        for writes in [false, true] {
            for (seed, source) in [(1, None), (2, fast()), (3, simulator(3)), (4, simulator(4))] {
                in_context(move |cx| {
                    let has_device = source.is_some();
                    let settings = Settings { mode, patience: LONG, ..Settings::default() };
                    let (section, _) = section(source, writes, settings);
                    assert_eq!(section.prepare(1).is_ok(), has_device);
                    let mut lane = section.lane();
                    let mut traffic = Traffic::new(seed);
                    traffic.run(cx, &mut lane, writes, |traffic, _| traffic.came() > 20_000);
                    while mode == Mode::Gpu && traffic.under_way() > 0 {
                        traffic.take(cx, &mut lane, writes);
                    }
                    traffic.drain(cx, &mut lane, writes);
                    let report = section.report();
                    let delivered = report.gpu.packets + report.cpu.packets;
                    assert_eq!(delivered, u64::from(traffic.came()));
                    assert_eq!(report.faults, [0; 6]);
                    assert_eq!(report.gpu.packets > 0, has_device && mode != Mode::Cpu);
                    if mode == Mode::Gpu && has_device {
                        assert_eq!(report.cpu.packets, 0);
                    }
                });
            }
        }
    }
}

#[test]
fn a_lane_holds_no_more_packets_and_bytes_than_it_may() {
    in_context(|cx| {
        let settings = Settings { mode: Mode::Gpu, length: 3, slots: 2, ..Settings::default() };
        let (section, _) = section(fast(), false, settings.clone());
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(5);
        // Nobody takes batches.
        while lane.room() > 0 {
            traffic.push(cx, &mut lane);
            lane.tick(cx.now());
        }
        assert_eq!(lane.held(), (settings.length + 1) * CAPACITY);
        assert_eq!(section.held(), lane.held());
        let mut more = Batch::new();
        more.allocate(3, 100);
        lane.add(cx.now(), &mut more);
        assert_eq!((more.len(), lane.held()), (3, 4 * CAPACITY), "what has no room is left");
        traffic.drain(cx, &mut lane, false);
        assert_eq!(section.held(), 0);

        // The bytes of two packets of the traffic, and some more.
        let settings = Settings { bytes: 70, ..settings };
        let (section, _) = super::bench::section(fast(), false, settings);
        let mut lane = section.lane();
        let mut batch = Batch::new();
        for _ in 0..5 {
            batch.push(millrace_core::Packet::from_bytes(&[0; 30]).unwrap()).unwrap();
        }
        lane.add(cx.now(), &mut batch);
        assert_eq!((batch.len(), lane.held()), (3, 2));
        // No packets follow and these are not old, but the lane is full.
        lane.tick(cx.now());
        assert!(lane.take(cx, |_, batch, _| batch.clear()));
        let mut large = Batch::new();
        large.push(millrace_core::Packet::from_bytes(&[0; 300]).unwrap()).unwrap();
        lane.add(cx.now(), &mut large);
        assert_eq!((large.len(), lane.held()), (0, 1), "alone it is taken");
    });
}

#[test]
fn a_batch_ends_by_age_or_when_nothing_comes_any_more() {
    in_context(|cx| {
        let settings = Settings { timeout: Duration::from_micros(100), ..Settings::default() };
        let (section, _) = section(None, false, settings);
        let mut lane = section.lane();
        let mut traffic = Traffic::new(6);
        let clock = cx.router().clone();
        let pass = |cx: &mut millrace_core::Context, micros: i64| {
            clock.clock().advance(cx.now() + millrace_core::Timestamp::from_micros(micros));
            cx.refresh_now();
        };
        let mut one = |cx: &mut millrace_core::Context, lane: &mut super::super::Lane| {
            let mut batch = Batch::new();
            traffic.few(1, &mut batch);
            lane.add(cx.now(), &mut batch);
        };
        let taken = |cx: &mut millrace_core::Context, lane: &mut super::super::Lane| {
            lane.take(cx, |_, batch, _| batch.clear())
        };
        one(cx, &mut lane);
        lane.tick(cx.now());
        assert!(!taken(cx, &mut lane), "more may come");
        pass(cx, 60);
        one(cx, &mut lane);
        lane.tick(cx.now());
        assert!(!taken(cx, &mut lane), "neither old nor alone");
        pass(cx, 40);
        one(cx, &mut lane);
        lane.tick(cx.now());
        assert!(taken(cx, &mut lane), "the first one is old");
        assert_eq!(section.report().age.quantile(1.0) / 10_000, 10, "a hundred microseconds");
        one(cx, &mut lane);
        lane.tick(cx.now());
        assert!(!taken(cx, &mut lane));
        lane.tick(cx.now());
        assert!(taken(cx, &mut lane), "nothing came since the last tick");
        assert_eq!(lane.held(), 0);
    });
}

/// If a table is changed before packets arrive, the first of them is processed by the new table.
#[test]
fn what_is_changed_before_the_first_packet_holds_for_it() {
    for source in [fast(), simulator(7)] {
        in_context(move |cx| {
            let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
            let (section, routes) = section(source, false, settings);
            section.prepare(1).unwrap();
            let mut lane = section.lane();
            routes.change();
            let mut traffic = Traffic::new(8);
            traffic.run(cx, &mut lane, false, |traffic, _| traffic.epochs.len() > 1000);
            assert!(traffic.epochs.iter().all(|&epoch| epoch == 1), "{:?}", traffic.epochs.first());
        });
    }
}

/// A change while a batch is collected applies to this batch, if the device gets it in time. Here the device gets it
/// at once.
#[test]
fn a_batch_has_the_tables_of_the_moment_at_which_it_is_submitted() {
    for source in [fast(), simulator(7)] {
        in_context(move |cx| {
            let settings = Settings { mode: Mode::Gpu, inline: true, ..Settings::default() };
            let (section, routes) = section(source, false, settings);
            section.prepare(1).unwrap();
            let mut lane = section.lane();
            let mut traffic = Traffic::new(8);
            for epoch in 0..5 {
                if epoch > 0 {
                    traffic.push(cx, &mut lane);
                    routes.change();
                }
                traffic.push(cx, &mut lane);
                let before = traffic.epochs.len();
                traffic.drain(cx, &mut lane, false);
                let seen = traffic.epochs.get(before..).unwrap();
                assert!(!seen.is_empty() && seen.iter().all(|&seen| seen == epoch), "{seen:?}");
            }
            assert_eq!(section.report().cpu.packets, 0);
        });
    }
}

#[test]
fn routes_change_while_packets_flow() {
    for source in [fast(), simulator(7)] {
        in_context(move |cx| {
            let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
            let (section, routes) = section(source, false, settings);
            section.prepare(1).unwrap();
            let mut lane = section.lane();
            let mut traffic = Traffic::new(8);
            traffic.run(cx, &mut lane, false, |traffic, _| !traffic.epochs.is_empty());
            for epoch in 1..10 {
                routes.change();
                let seen = |traffic: &Traffic, _: &_| traffic.epochs.last() == Some(&epoch);
                traffic.run(cx, &mut lane, false, seen);
            }
            while traffic.under_way() > 0 {
                traffic.take(cx, &mut lane, false);
            }
            assert!(traffic.epochs.is_sorted(), "the device's batches grow no older");
            let report = section.report();
            assert_eq!((report.cpu.packets, report.faults), (0, [0; 6]), "all by the device");
        });
    }
}

#[test]
fn packets_move_to_another_lane_as_they_came() {
    for mode in [Mode::Gpu, Mode::Cpu, Mode::Adaptive] {
        for writes in [false, true] {
            in_context(move |cx| {
                let settings = Settings { mode, patience: LONG, ..Settings::default() };
                let (old, _) = section(simulator(9), writes, settings.clone());
                old.prepare(1).unwrap();
                let before = Lanes::default();
                let mut lane = before.mine(cx, &old);
                let mut traffic = Traffic::new(10);
                traffic.run(cx, &mut lane, writes, |traffic, _| traffic.came() > 3_000);
                while traffic.under_way() < 2_000 {
                    traffic.push(cx, &mut lane);
                    lane.tick(cx.now());
                }
                drop(lane);

                // The new lane is smaller than what it inherits.
                let settings = Settings { length: 1, ..settings };
                let (new, _) = section(simulator(11), writes, settings);
                let lanes = Lanes::default();
                assert!(lanes.own(cx).is_none());
                let here = cx.thread();
                lanes.take_over(&new, &before, |_| here);
                assert_eq!((old.held(), lanes.awaiting()), (0, traffic.under_way() as usize));
                let mut lane = lanes.own(cx).unwrap();
                assert_eq!((new.held(), lanes.awaiting()), (traffic.under_way() as usize, 0));
                assert_eq!(lane.room(), 0);
                traffic.run(cx, &mut lane, writes, |traffic, _| traffic.came() > 9_000);
                while traffic.under_way() > 0 {
                    traffic.take(cx, &mut lane, writes);
                }
                traffic.drain(cx, &mut lane, writes);
            });
        }
    }
}

#[test]
fn a_device_is_opened_in_the_background_and_then_used() {
    in_context(|cx| {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = tries.clone();
        let open = move || match counted.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(crate::DeviceError::OutOfMemory("not yet".to_owned())),
            _ => Ok(Fast::open("")),
        };
        let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
        let (section, _) = section(Some(Source::new(Box::new(open))), false, settings);
        assert!(section.prepare(1).is_err());
        let mut lane = section.lane();
        let mut traffic = Traffic::new(12);
        traffic.run(cx, &mut lane, false, |_, _| section.report().gpu.batches > 10);
        traffic.drain(cx, &mut lane, false);
        let report = section.report();
        assert!(report.cpu.packets > 0);
        assert_eq!(
            (report.fault(super::super::Fault::Open), tries.load(Ordering::Relaxed)),
            (2, 4)
        );
    });
}
