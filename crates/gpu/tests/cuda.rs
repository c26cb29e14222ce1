//! The CUDA backend's calls of the driver, on a driver library of our own that works on the processor (`fake/libcuda.c`), which
//! is strict about handles, addresses and what is freed when. And, on a machine with a GPU, the same on that.
//!
//! Each test is a process of its own: one driver library a process, opened once, with the faults that its environment names.
//! What passes on the fake driver says that the calls are right by the driver's manual; no more than that, and nothing of speed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;
mod fake;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use fastrand::Rng;
use libtest_mimic::{Arguments, Failed, Trial};
use millrace_gpu::cuda::{self, calibrate};
use millrace_gpu::host::Fast;
use millrace_gpu::{Device, DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};
use millrace_testkit::data::Data;

/// Where the sources were when this was built.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Which test a child process runs.
const CHILD: &str = "MILLRACE_CUDA_TEST";

/// A test: its name, the environment of its process, and what it does there.
type Test = (&'static str, &'static [(&'static str, &'static str)], fn());

/// Tests without faults: on the fake driver, and on a GPU where there is one.
const SOUND: &[Test] = &[
    ("plans_do_what_they_say", &[], plans_do_what_they_say),
    ("tables_live_as_long_as_their_batches", &[], tables),
    ("wrong_submissions_are_rejected", &[], refusals),
    ("patterns_are_found", &[], || patterns_agree_with_fast_mode(&open())),
    ("lanes_of_many_threads", &[], lanes_of_many_threads),
    ("lanes_are_dropped_at_any_time", &[], lanes_are_dropped_at_any_time),
    ("the_device_is_opened_again", &[], the_device_is_opened_again),
    ("tables_are_dropped_before_they_arrive", &[], tables_are_dropped_before_they_arrive),
    ("calibration", &[], calibration),
    ("kernels_by_themselves", &[], kernels_by_themselves),
];

/// Tests with faults, for the fake driver alone.
const FAULTY: &[Test] = &[
    ("no_device", &[("FAKE_CUDA_DEVICES", "0")], || refuses_to_open("no GPU")),
    ("an_old_driver", &[("FAKE_CUDA_VERSION", "11080")], || refuses_to_open("CUDA 11.8")),
    ("a_driver_that_fails", &[("FAKE_CUDA", "call cuInit 1 999")], || {
        refuses_to_open("cuInit: CUDA_ERROR_UNKNOWN");
    }),
    ("a_compiler_that_fails", &[("FAKE_NVRTC", "fail")], plans_do_what_they_say),
    ("machine_code_that_fails", &[("FAKE_CUDA", "call cuModuleLoadDataEx 2 209")], tables),
    (
        "no_way_to_a_kernel",
        &[("FAKE_NVRTC", "fail"), ("FAKE_CUDA", "call cuModuleLoadDataEx 2 218")],
        || refuses_to_open("as it was told"),
    ),
    (
        "lanes_are_dropped_with_work_under_way",
        &[("FAKE_CUDA", "late mr_lpm4 1 60; late mr_lpm4 7 60; late mr_lpm4 8 60")],
        lanes_are_dropped_at_any_time,
    ),
    (
        "tables_of_batches_that_come_late",
        &[("FAKE_CUDA", "late mr_lpm4 1 20; late mr_lpm4 5 20; late mr_lpm4 9 20")],
        tables,
    ),
    (
        "ptx_that_the_driver_does_not_take",
        &[("FAKE_NVRTC", "fail"), ("FAKE_CUDA_NO_PTX", "1")],
        || {
            refuses_to_open(
                "as PTX: cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE: ptxas fatal: what is this?",
            )
        },
    ),
    ("a_kernel_that_takes_too_much", &[("FAKE_CUDA_THREADS", "128")], || {
        refuses_to_open("mr_invert runs in blocks of 128 threads at most");
    }),
    ("nothing_can_be_registered", &[("FAKE_CUDA_NO_REGISTER", "1")], plans_do_what_they_say),
    (
        "nothing_can_be_registered_and_the_device_is_lost",
        &[("FAKE_CUDA_NO_REGISTER", "1"), ("FAKE_CUDA", "kernel mr_lpm4 3 700")],
        loss,
    ),
    ("no_memory_for_a_table", &[("FAKE_CUDA_MEMORY", "100000")], no_memory_for_a_table),
    ("no_memory_for_a_lane", &[("FAKE_CUDA_MEMORY", "100000")], no_memory_for_a_lane),
    ("every_call_of_opening_a_lane_fails_once", &[], every_call_of_opening_a_lane_fails_once),
    ("a_launch_that_is_refused", &[("FAKE_CUDA", "call cuGraphLaunch 2 1")], refused_submission),
    (
        "a_step_that_is_refused",
        &[("FAKE_CUDA", "call cuMemcpyDtoHAsync_v2 2 1")],
        a_step_that_is_refused,
    ),
    ("a_kernel_breaks_the_context", &[("FAKE_CUDA", "kernel mr_lpm4 3 700")], loss),
    ("a_call_finds_the_device_gone", &[("FAKE_CUDA", "call cuGraphLaunch 3 999")], loss),
    (
        "a_loss_that_a_reset_does_not_mend",
        &[("FAKE_CUDA", "kernel mr_lpm4 1 700; kernel mr_complete 2 719")],
        a_loss_that_a_reset_does_not_mend,
    ),
    (
        "a_device_that_cannot_be_reset",
        &[("FAKE_CUDA", "kernel mr_lpm4 1 700; call cuDevicePrimaryCtxReset_v2 1 700")],
        a_device_that_cannot_be_reset,
    ),
    ("a_device_that_does_nothing", &[("FAKE_CUDA", "skip mr_complete 1")], || {
        refuses_to_open("brought 0x0");
    }),
    ("a_device_that_hangs_at_once", &[("FAKE_CUDA", "hang mr_complete 1")], || {
        refuses_to_open("does not finish");
        Lookups::open(&reopen()).unwrap().succeeds(0);
    }),
    (
        "a_kernel_breaks_the_context_by_itself",
        &[("FAKE_CUDA", "kernel mr_lpm4 100 700")],
        kernels_by_themselves_fail,
    ),
    ("a_kernel_hangs", &[("FAKE_CUDA", "hang mr_lpm4 3")], hang),
    ("a_batch_comes_late", &[("FAKE_CUDA", "late mr_lpm4 2 50")], late),
    ("a_word_is_never_written", &[("FAKE_CUDA", "skip mr_complete 3")], no_word),
    (
        "a_table_that_never_arrives",
        &[("FAKE_CUDA", "kernel mr_lpm4 1 719")],
        tables_of_a_lost_device,
    ),
];

/// What other tests run in processes of their own.
const INNER: &[Test] =
    &[("probe", &[], probe), ("a_lane_is_opened_in_the_end", &[], a_lane_is_opened_in_the_end)];

fn main() -> ExitCode {
    if let Some(test) = env::var_os(CHILD) {
        let all = SOUND.iter().chain(FAULTY).chain(INNER);
        let (_, _, run) = all.into_iter().find(|(name, ..)| test == *name).expect("a test");
        run();
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let build = tempfile::tempdir().expect("a temporary folder");
    let mut trials = Vec::new();
    // A machine with a GPU may have this program and nothing else of Millrace.
    if Path::new(HERE).join("kernels").is_dir() {
        match fake::build(Path::new(HERE), build.path()) {
            Ok(()) => trials.extend(fake_trials(build.path())),
            Err(error) => {
                eprintln!("the fake driver: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        eprintln!("left out: the tests on the fake driver, for its source is not here");
    }
    let has_gpu = child("probe", &[], &[]).is_ok();
    for &(name, ..) in SOUND.iter().filter(|_| has_gpu) {
        trials.push(Trial::test(format!("gpu::{name}"), move || child(name, &[], &[])));
    }
    if !has_gpu {
        eprintln!("left out: the same on a GPU, for there is none here");
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(build);
    conclusion.exit_code()
}

fn fake_trials(build: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: String, test: &'static str, environment, libraries: Vec<PathBuf>| {
        let run = move || child(test, environment, &libraries);
        trials.push(Trial::test(format!("fake::{name}"), run));
    };
    for &(name, environment, _) in SOUND.iter().chain(FAULTY) {
        add(name.to_owned(), name, environment, vec![build.to_owned()]);
    }
    let (bare, test) = (build.join("bare"), "plans_do_what_they_say");
    add("without_a_compiler".to_owned(), test, &[], vec![bare.clone()]);
    let compiler = Data::Nvrtc.folder_or_skip("fake::with_a_real_compiler").and_then(library);
    if let Some(compiler) = compiler {
        for test in [test, "patterns_are_found"] {
            let name = format!("with_a_real_compiler::{test}");
            add(name, test, &[("FAKE_CUDA_NO_PTX", "1")], vec![bare.clone(), compiler.clone()]);
        }
    }
    trials
}

/// The folder below this one that NVIDIA's compiler is in.
fn library(folder: PathBuf) -> Option<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_library = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so"))
    };
    if entries.iter().any(|path| is_library(&path)) {
        return Some(folder);
    }
    entries.into_iter().filter(|path| path.is_dir()).find_map(library)
}

/// Runs a test in a process of its own, with the fake driver or what the machine has.
fn child(name: &str, environment: &[(&str, &str)], libraries: &[PathBuf]) -> Result<(), Failed> {
    let mut command = Command::new(env::current_exe()?);
    command.env(CHILD, name).envs(environment.iter().copied());
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", env::join_paths(libraries)?);
    }
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{}\n{messages}", output.status).into())
}

/// Whether there is a GPU.
fn probe() {
    cuda::open(0).map(drop).unwrap();
}

fn open() -> Arc<dyn Device> {
    cuda::open(0).unwrap()
}

fn plans_do_what_they_say() {
    let device = open();
    for seed in 0..12 {
        device_agrees_with_oracle(&device, seed, seed % 2 == 0);
    }
}

fn tables() {
    tables_live_as_long_as_their_batches(&open());
    tables_are_made_of_others(&open());
}

fn refusals() {
    refusals_leave_the_lane_as_it_was(&open(), &Fast::open(""));
}

fn lanes_of_many_threads() {
    let device = open();
    thread::scope(|scope| {
        for seed in 0..4 {
            let device = device.clone();
            scope.spawn(move || device_agrees_with_oracle(&device, 100 + seed, seed % 2 == 0));
        }
    });
}

fn lanes_are_dropped_at_any_time() {
    let device = open();
    for _ in 0..30 {
        let mut lookups = match Lookups::open(&device) {
            Ok(lookups) => lookups,
            // Too many lanes on which work is under way.
            Err(DeviceError::Step(_)) => {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        lookups.submit(0);
        lookups.submit(1);
    }
    let mut last = Lookups::patiently(&device);
    last.succeeds(0);
    drop((last, device));
    // All is freed at exit, also of lanes that were dropped with work under way: the backend looks after them by itself.
    thread::sleep(Duration::from_millis(300));
}

fn tables_are_dropped_before_they_arrive() {
    let device = open();
    let words = Arc::new(vec![7; 100_000]);
    for _ in 0..20 {
        drop(device.load_table(&words).unwrap());
    }
    let kept = device.load_table(&words).unwrap();
    let last = device.load_table(&words).unwrap();
    drop((last, device));
    assert!(matches!(kept.is_resident(), Err(DeviceError::Lost(_))), "its device is closed");
}

fn the_device_is_opened_again() {
    let first = open();
    let second = open();
    assert_eq!(first.id(), second.id(), "one device, however often it is opened");
    let mut lookups = Lookups::open(&first).unwrap();
    drop((first, second));
    lookups.succeeds(0);
    let again = open();
    assert_eq!(again.id(), lookups.table.device(), "lanes keep it");
    drop((again, lookups));
    Lookups::open(&open()).unwrap().succeeds(1);
    assert!(cuda::open(17).err().unwrap().0.contains("no GPU 17"));
}

fn calibration() {
    let figures = calibrate::calibrate(0, 1 << 20).unwrap();
    assert_eq!(figures.bytes, 1 << 20);
    for rate in
        [figures.to_device, figures.to_host, figures.to_device_beside, figures.to_host_beside]
    {
        assert!(rate > 0.0 && rate.is_finite(), "{figures:?}");
    }
    assert!(figures.launch <= figures.launch_and_wait && figures.submit <= figures.round_trip);
    let threads: Vec<u32> = figures.threads.iter().map(|(threads, _)| *threads).collect();
    assert_eq!(threads, [1, 2, 4, 8, 16, 32]);
    assert!(figures.threads.iter().all(|(_, rate)| *rate > 0.0 && rate.is_finite()), "{figures:?}");
}

/// Slots that hold batches, and what their kernels take.
fn kernels_by_themselves() {
    let mut lookups = Lookups::open(&open()).unwrap();
    (0..3).for_each(|slot| lookups.succeeds(slot));
    assert!(lookups.time_kernels(1024).unwrap() > Duration::ZERO);
    assert!(matches!(lookups.time_kernels(1 << 20), Err(DeviceError::Step(_))), "too many rows");
    (0..3).for_each(|slot| lookups.succeeds(slot));
}

fn kernels_by_themselves_fail() {
    let mut lookups = Lookups::open(&open()).unwrap();
    lookups.succeeds(0);
    assert!(matches!(lookups.time_kernels(1024), Err(DeviceError::Lost(_))));
    drop(lookups);
    Lookups::open(&reopen()).unwrap().succeeds(0);
}

fn refuses_to_open(why: &str) {
    let error = cuda::open(0).err().expect("there is no device");
    assert!(error.0.contains(why), "{error}");
}

/// Batches that look addresses up, three slots.
struct Lookups {
    lane: Box<dyn DeviceLane>,
    table: Table,
    rng: Rng,
}

impl Lookups {
    fn open(device: &Arc<dyn Device>) -> Result<Self, DeviceError> {
        let table = device.load_table(&lookup_table(9))?;
        while !table.is_resident()? {
            thread::yield_now();
        }
        let lane = device.open_lane(&lookup_plan().0, 3)?;
        Ok(Self { lane, table, rng: Rng::with_seed(3) })
    }

    /// Opens one when the device lets it.
    fn patiently(device: &Arc<dyn Device>) -> Self {
        let start = Instant::now();
        loop {
            match Self::open(device) {
                Ok(lookups) => return lookups,
                Err(error) => {
                    assert!(start.elapsed() < Duration::from_secs(10), "{error}");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    fn submit(&mut self, slot: usize) -> Ticket {
        lookup(&mut *self.lane, &self.table, slot, &mut self.rng)
    }

    fn try_submit(&mut self, slot: usize) -> Result<Ticket, DeviceError> {
        let table = self.table.clone();
        self.lane.submit(SlotId(slot), 1024, 0, &[table])
    }

    fn time_kernels(&mut self, rows: usize) -> Result<Duration, DeviceError> {
        let table = self.table.clone();
        self.lane.time_kernels(rows, 0, &[table], 100)
    }

    fn succeeds(&mut self, slot: usize) {
        let ticket = self.submit(slot);
        assert_eq!(wait(&mut *self.lane, ticket), Poll::Done);
        check_lookup(&mut *self.lane, slot, 9);
    }
}

/// Opens the device until it works again.
fn reopen() -> Arc<dyn Device> {
    let start = Instant::now();
    loop {
        match cuda::open(0) {
            Ok(device) => return device,
            Err(why) => assert!(start.elapsed() < Duration::from_secs(10), "{why}"),
        }
    }
}

fn no_memory_for_a_table() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    let error = device.load_table(&Arc::new(vec![0; 100_000])).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory(_)), "{error}");
    lookups.succeeds(0);
}

fn no_memory_for_a_lane() {
    let device = open();
    let plan = lookup_plan().0;
    for _ in 0..3 {
        let mut lookups = Lookups::open(&device).unwrap();
        let error = device.open_lane(&plan, 20).err().expect("no room");
        assert!(matches!(error, DeviceError::OutOfMemory(_)), "{error}");
        lookups.succeeds(0);
    }
}

/// Every call that opening makes fails in a process of its own, which must free all that it had by then.
fn every_call_of_opening_a_lane_fails_once() {
    let functions = [
        ("cuDevicePrimaryCtxRetain", 1),
        ("cuCtxSetCurrent", 1),
        ("cuModuleLoadDataEx", 2),
        ("cuModuleGetFunction", 2),
        ("cuFuncGetAttribute", 2),
        ("cuStreamCreate", 3),
        ("cuMemAlloc_v2", 3),
        ("cuMemHostRegister_v2", 2),
        ("cuMemHostGetDevicePointer_v2", 2),
        ("cuStreamBeginCapture_v2", 4),
        ("cuMemcpyHtoDAsync_v2", 4),
        ("cuLaunchKernel", 6),
        ("cuStreamEndCapture", 2),
        ("cuGraphInstantiateWithFlags", 2),
        ("cuEventCreate", 1),
        ("cuEventRecord", 1),
        ("cuEventQuery", 1),
        ("cuStreamQuery", 1),
    ];
    for (function, times) in functions {
        for time in 1..=times {
            for code in [2, 719] {
                let faults = format!("call {function} {time} {code}");
                let faults = [("FAKE_CUDA", faults.as_str())];
                let end = Command::new(env::current_exe().unwrap())
                    .envs(faults)
                    .env(CHILD, "a_lane_is_opened_in_the_end")
                    .output()
                    .unwrap();
                let messages = String::from_utf8_lossy(&end.stderr);
                assert!(end.status.success(), "{faults:?}: {}\n{messages}", end.status);
            }
        }
    }
}

/// Whatever fails the first time, the second succeeds.
fn a_lane_is_opened_in_the_end() {
    let start = Instant::now();
    loop {
        let opened = cuda::open(0)
            .map_err(DeviceError::from)
            .and_then(|device| Lookups::open(&device).map(|lookups| (device, lookups)));
        match opened {
            Ok((_, mut lookups)) => {
                lookups.succeeds(0);
                return;
            }
            Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
        }
    }
}

fn refused_submission() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    let first = lookups.submit(0);
    let error = lookups.try_submit(1).unwrap_err();
    assert!(matches!(error, DeviceError::Step(_)), "{error}");
    assert_eq!(wait(&mut *lookups.lane, first), Poll::Done);
    check_lookup(&mut *lookups.lane, 0, 9);
    assert!(lookups.lane.quiesce(Duration::from_secs(10)));
    lookups.succeeds(1);
}

/// A plan with payload is submitted call by call; the second submission fails in the middle.
fn a_step_that_is_refused() {
    let device = open();
    let mut rng = Rng::with_seed(1);
    let case = random_case(&mut rng, true);
    let mut lane = device.open_lane(&case.plan, 2).unwrap();
    let copies = 2;
    let mut failures = 0;
    for _ in 0..copies {
        let expected = case.fill(&mut rng, lane.block(SlotId(0)).unwrap(), 100);
        match lane.submit(SlotId(0), 100, 5, &[]) {
            Ok(ticket) => {
                assert_eq!(wait(&mut *lane, ticket), Poll::Done);
                case.check(lane.block(SlotId(0)).unwrap(), &expected, 100, "whole");
            }
            Err(error) => {
                assert!(matches!(error, DeviceError::Step(_)), "{error}");
                failures += 1;
                assert!(lane.quiesce(Duration::from_secs(10)), "what was submitted ends");
            }
        }
    }
    assert_eq!(failures, 1);
    let expected = case.fill(&mut rng, lane.block(SlotId(0)).unwrap(), 200);
    let ticket = lane.submit(SlotId(0), 200, 0, &[]).unwrap();
    assert_eq!(wait(&mut *lane, ticket), Poll::Done);
    case.check(lane.block(SlotId(0)).unwrap(), &expected, 200, "afterwards");
}

fn loss() {
    let device = open();
    let (mut lookups, mut other) =
        (Lookups::open(&device).unwrap(), Lookups::open(&device).unwrap());
    lookups.succeeds(0);
    other.succeeds(0);
    // The third run breaks the context, if it begins: the call may find that out, or the poll.
    let mut lost = 0;
    for slot in 0..3 {
        match lookups.try_submit(slot) {
            Ok(ticket) => match wait(&mut *lookups.lane, ticket) {
                Poll::Failed(error) => {
                    assert!(error.is_lost(), "{error}");
                    assert!(lookups.lane.block(SlotId(slot)).is_none(), "not sure");
                    lost += 1;
                }
                end => panic!("{end:?}"),
            },
            Err(error) => {
                assert!(error.is_lost(), "{error}");
                lost += 1;
            }
        }
    }
    assert_eq!(lost, 3);
    assert!(!lookups.lane.quiesce(Duration::from_millis(10)));
    assert!(device.is_lost());
    assert!(other.try_submit(1).unwrap_err().is_lost());
    assert!(device.load_table(&lookup_table(1)).unwrap_err().is_lost());
    assert!(device.open_lane(&lookup_plan().0, 1).err().unwrap().is_lost());
    assert!(cuda::open(0).err().unwrap().0.contains("still in use"));
    let left = lookups.table.clone();
    drop((device, lookups, other));
    let device = reopen();
    let mut lookups = Lookups::open(&device).unwrap();
    let error = lookups.lane.submit(SlotId(0), 1, 0, &[left]).unwrap_err();
    assert!(matches!(error, DeviceError::Step(_)), "a table of the lost device: {error}");
    lookups.succeeds(0);
}

/// The device is broken again when it has to prove that it works.
fn a_loss_that_a_reset_does_not_mend() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    let ticket = lookups.submit(0);
    assert!(matches!(wait(&mut *lookups.lane, ticket), Poll::Failed(DeviceError::Lost(_))));
    drop((lookups, device));
    refuses_to_open("CUDA_ERROR_LAUNCH_FAILED");
    Lookups::open(&reopen()).unwrap().succeeds(0);
}

fn a_device_that_cannot_be_reset() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    let ticket = lookups.submit(0);
    assert!(matches!(wait(&mut *lookups.lane, ticket), Poll::Failed(DeviceError::Lost(_))));
    drop((lookups, device));
    for _ in 0..3 {
        refuses_to_open("cannot be reset");
    }
}

fn hang() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    lookups.succeeds(0);
    lookups.succeeds(1);
    let tickets = [lookups.submit(2), lookups.submit(0)];
    assert!(!lookups.lane.quiesce(Duration::from_millis(30)));
    for ticket in tickets {
        assert_eq!(lookups.lane.poll(ticket), Poll::Pending);
        assert!(lookups.lane.block(ticket.slot).is_none());
    }
    let mut other = Lookups::open(&device).unwrap();
    other.succeeds(0);
    drop(lookups);
    other.succeeds(1);
    // The device has two seconds to let go of the lane.
    let start = Instant::now();
    while !device.is_lost() {
        assert!(start.elapsed() < Duration::from_secs(10));
        let _ = device.load_table(&lookup_table(1));
        thread::sleep(Duration::from_millis(50));
    }
    assert!(other.try_submit(0).unwrap_err().is_lost());
    drop((other, device));
    Lookups::open(&reopen()).unwrap().succeeds(0);
}

fn late() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    lookups.succeeds(0);
    let start = Instant::now();
    let ticket = lookups.submit(1);
    assert_eq!(lookups.lane.poll(ticket), Poll::Pending);
    assert!(!lookups.lane.quiesce(Duration::from_millis(5)), "given up");
    assert!(lookups.lane.block(SlotId(1)).is_none(), "but not given back");
    assert_eq!(wait(&mut *lookups.lane, ticket), Poll::Done);
    assert!(start.elapsed() >= Duration::from_millis(50));
    check_lookup(&mut *lookups.lane, 1, 9);
}

fn no_word() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    lookups.succeeds(0);
    let ticket = lookups.submit(1);
    let end = wait(&mut *lookups.lane, ticket);
    assert!(matches!(&end, Poll::Failed(DeviceError::Step(_))), "{end:?}");
    lookups.succeeds(1);
}

/// Tables that are forgotten do not keep a lost device.
fn tables_of_a_lost_device() {
    let device = open();
    let mut lookups = Lookups::open(&device).unwrap();
    let ticket = lookups.submit(0);
    assert!(matches!(wait(&mut *lookups.lane, ticket), Poll::Failed(DeviceError::Lost(_))));
    let table = lookups.table.clone();
    drop((lookups, device));
    let device = reopen();
    assert_eq!(table.is_resident(), Ok(true), "it was");
    assert_ne!(table.device(), device.id());
    Lookups::open(&device).unwrap().succeeds(0);
}
