//! A section that several threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_core::BiasedMutex;

use super::super::{Fault, Lane, Mode, Settings};
use super::bench::{LONG, Traffic, in_context, section};
use super::faults::source;
use crate::host::{self, Faults, Point};

#[test]
fn threads_share_a_device_that_fails() {
    const THREADS: usize = 3;
    for seed in 0..2 {
        let faults = Faults::none();
        let patience = Duration::from_millis(200);
        let settings = Settings { mode: Mode::Gpu, patience, ..Settings::default() };
        let (section, routes) = section(source(&faults, seed), seed == 0, settings);
        section.prepare(THREADS).unwrap();
        for (batch, point, fault) in [
            (20, Point::Launch(1), host::Fault::Fail),
            (50, Point::CopyOut, host::Fault::Lose),
            (80, Point::Launch(0), host::Fault::Hang),
        ] {
            faults.at(batch, point, fault);
        }
        let going = Arc::new(AtomicUsize::new(THREADS));
        let threads = (0..THREADS).map(|thread| {
            let (section, faults, going, routes) =
                (section.clone(), faults.clone(), going.clone(), routes.clone());
            std::thread::spawn(move || {
                in_context(move |cx| {
                    let lane = section.shared_lane();
                    let mut traffic = Traffic::new(thread as u64);
                    let began = Instant::now();
                    let mut told = false;
                    while going.load(Ordering::Relaxed) > 0 {
                        assert!(began.elapsed() < LONG);
                        let came = traffic.came();
                        traffic.run(cx, &mut lane.lock(cx), seed == 0, |traffic, _| {
                            traffic.came() > came
                        });
                        if !told && faults.injected() == 3 && section.report().good == THREADS {
                            told = true;
                            going.fetch_sub(1, Ordering::Relaxed);
                        }
                        if thread == 0 && traffic.came() % 1000 < 100 {
                            routes.change_at_most();
                        }
                    }
                    traffic.drain(cx, &mut lane.lock(cx), seed == 0);
                });
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        let report = section.report();
        println!("seed {seed}: {report:?}");
        assert_eq!((report.lanes, report.held, faults.injected()), (THREADS, 0, 3));
        assert!(report.fault(Fault::Lost) > 0 && report.fault(Fault::Timeout) > 0);
        assert_eq!(faults.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_lane_without_traffic_releases_a_lost_device() {
    in_context(|cx| {
        let faults = Faults::none();
        let settings = Settings { mode: Mode::Gpu, patience: LONG, ..Settings::default() };
        let (section, _) = section(source(&faults, 1), false, settings);
        section.prepare(2).unwrap();
        let idle: Arc<BiasedMutex<Lane>> = section.shared_lane();
        let mut traffic = Traffic::new(1);
        traffic.run(cx, &mut idle.lock(cx), false, |traffic, _| traffic.came() > 1000);
        traffic.drain(cx, &mut idle.lock(cx), false);

        let mut lane = section.lane();
        let mut traffic = Traffic::new(2);
        faults.at(faults.batches() + 5, Point::CopyIn, host::Fault::Lose);
        // The simulator cannot be opened again while a lane on the lost device exists.
        let enough = |_: &Traffic, _: &Lane| {
            let report = section.report();
            report.fault(Fault::Lost) >= 2 && report.good == 1
        };
        traffic.run(cx, &mut lane, false, enough);
        traffic.drain(cx, &mut lane, false);
    });
}
