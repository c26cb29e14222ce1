//! Devices that fail: at each step of a plan, in each way, in each call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Fault, Mode, Section, Settings, Source};
use super::bench::{LONG, Traffic, in_context, section};
use crate::host::{self, Call, Faults, Point, Simulator};

const POINTS: [Point; 5] =
    [Point::CopyIn, Point::Launch(0), Point::Launch(1), Point::CopyOut, Point::Completion];

/// The injected fault, the kind under which it is counted, and the time that the lane waits.
const KINDS: [(host::Fault, Fault, Duration); 4] = [
    (host::Fault::Fail, Fault::Step, LONG),
    (host::Fault::Hang, Fault::Timeout, Duration::from_millis(20)),
    (host::Fault::Late(Duration::from_millis(60)), Fault::Timeout, Duration::from_millis(20)),
    (host::Fault::Lose, Fault::Lost, LONG),
];

pub(super) fn source(faults: &Faults, seed: u64) -> Option<Arc<Source>> {
    let settings = host::Settings {
        seed,
        delay: Duration::from_micros(5),
        down: Duration::from_millis(3),
        patience: Duration::from_millis(3),
        ..host::Settings::default()
    };
    Some(Source::new(Box::new(Simulator::new(settings, faults.clone()).opener())))
}

fn settings(mode: Mode, patience: Duration) -> Settings {
    Settings { mode, patience, ..Settings::default() }
}

/// Sends traffic until batches have passed through the device after batch `number` was submitted. Returns how long
/// the device was not used.
fn goes_on(
    cx: &mut millrace_core::Context,
    section: &Arc<Section>,
    faults: &Faults,
    writes: bool,
    seed: u64,
    number: u64,
) -> Duration {
    let mut lane = section.lane();
    let mut traffic = Traffic::new(seed);
    traffic.run(cx, &mut lane, writes, |_, _| faults.batches() >= number);
    let (mut by_device, mut last, mut pause) = (0, Instant::now(), Duration::ZERO);
    let mut after = 0;
    traffic.run(cx, &mut lane, writes, |_, _| {
        let batches = section.report().gpu.batches;
        if batches > by_device {
            pause = pause.max(last.elapsed());
            (by_device, last) = (batches, Instant::now());
            after += u32::from(faults.batches() > number + 10);
        }
        after > 20
    });
    traffic.drain(cx, &mut lane, writes);
    let report = section.report();
    assert_eq!(report.gpu.packets + report.cpu.packets, u64::from(traffic.came()));
    assert_eq!(faults.violations(), Vec::<String>::new());
    pause
}

#[test]
fn no_packet_is_lost_whatever_fails_at_whatever_step() {
    for (kind, counted, patience) in KINDS {
        let mut longest = Duration::ZERO;
        for point in POINTS {
            for seed in 0..3 {
                let (sender, receiver) = std::sync::mpsc::channel();
                in_context(move |cx| {
                    let writes = seed % 2 == 0;
                    let mode = if seed > 0 { Mode::Gpu } else { Mode::Adaptive };
                    let faults = Faults::none();
                    let (section, _) =
                        section(source(&faults, seed), writes, settings(mode, patience));
                    section.prepare(1).unwrap();
                    faults.at(20, point, kind);
                    let pause = goes_on(cx, &section, &faults, writes, seed, 20);
                    let report = section.report();
                    assert_eq!(faults.injected(), 1);
                    assert!(report.fault(counted) >= 1, "{kind:?} {point:?}: {:?}", report.faults);
                    assert!(report.again >= 1);
                    sender.send(pause).unwrap();
                });
                longest = longest.max(receiver.recv().unwrap());
            }
        }
        println!("{kind:?}: the device is used again after {longest:?} at most");
    }
}

#[test]
fn no_packet_is_lost_when_calls_are_refused() {
    for (call, number, counted) in [
        (Call::Submit, 5, Fault::Submit),
        (Call::Lane, 0, Fault::Open),
        (Call::Table, 0, Fault::Load),
        (Call::Table, 1, Fault::Load),
    ] {
        for seed in 0..3 {
            in_context(move |cx| {
                let faults = Faults::none();
                let (section, routes) =
                    section(source(&faults, seed), true, settings(Mode::Gpu, LONG));
                faults.refuse(call, number);
                let prepared = section.prepare(1);
                assert_eq!(prepared.is_ok(), number > 0, "{prepared:?}");
                routes.change();
                goes_on(cx, &section, &faults, true, seed, 10);
                let report = section.report();
                assert_eq!(faults.injected(), 1);
                // The caller of `prepare` gets the error.
                let told = u64::from(call == Call::Lane);
                assert_eq!(report.fault(counted) + told, 1, "{call:?}: {:?}", report.faults);
            });
        }
    }
}

#[test]
fn no_packet_is_lost_when_much_fails() {
    for seed in 0..6 {
        in_context(move |cx| {
            let faults = Faults::none();
            let writes = seed % 2 == 0;
            let (section, routes) = section(
                source(&faults, seed),
                writes,
                settings(Mode::Adaptive, Duration::from_millis(20)),
            );
            section.prepare(2).unwrap();
            faults.random(0.02, seed);
            let mut lanes = [section.lane(), section.lane()];
            let mut traffic = [Traffic::new(seed), Traffic::new(seed + 100)];
            let began = Instant::now();
            let mut changes = 0;
            while began.elapsed() < Duration::from_millis(300) {
                for (lane, traffic) in lanes.iter_mut().zip(&mut traffic) {
                    let came = traffic.came();
                    traffic.run(cx, lane, writes, |traffic, _| traffic.came() > came);
                }
                if began.elapsed().as_millis() / 40 > changes {
                    changes += 1;
                    routes.change();
                }
            }
            faults.clear();
            // The balancer may have found the simulator too slow.
            section.set_mode(Mode::Gpu);
            let before = section.report().gpu.batches;
            let began = Instant::now();
            while section.report().gpu.batches < before + 20 {
                assert!(
                    began.elapsed() < LONG,
                    "the device is not used again: {:?}",
                    section.report()
                );
                // One after the other: a lost device can be opened again when no lane holds it any more.
                for (lane, traffic) in lanes.iter_mut().zip(&mut traffic) {
                    let came = traffic.came();
                    traffic.run(cx, lane, writes, |traffic, _| traffic.came() > came);
                }
            }
            for (lane, traffic) in lanes.iter_mut().zip(&mut traffic) {
                traffic.drain(cx, lane, writes);
            }
            let report = section.report();
            println!(
                "seed {seed}: {} faults, counted {:?}, {} batches by the device, {} by the twins, {} anew",
                faults.injected(),
                report.faults,
                report.gpu.batches,
                report.cpu.batches,
                report.again
            );
            assert!(faults.injected() > 0);
            assert_eq!(faults.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_batch_that_is_collected_does_not_wait_for_a_link_that_is_suspect() {
    in_context(|cx| {
        let faults = Faults::none();
        let patience = Duration::from_millis(5);
        let settings = Settings { slots: 1, ..settings(Mode::Gpu, patience) };
        let (section, _) = section(source(&faults, 1), false, settings);
        section.prepare(1).unwrap();
        let mut lane = section.lane();
        let mut traffic = Traffic::new(1);
        faults.at(faults.batches(), Point::Launch(0), host::Fault::Hang);
        // The first batch has the only slot, and the next one is to wait for it.
        while lane.held() <= super::bench::CAPACITY {
            traffic.push(cx, &mut lane);
        }
        let began = Instant::now();
        while section.report().fault(Fault::Timeout) == 0 {
            assert!(began.elapsed() < LONG);
            lane.tick(cx.now());
        }
        lane.flush();
        while traffic.take_one(cx, &mut lane, false) {}
        assert_eq!(traffic.under_way(), 0, "the twins treat both");
    });
}
