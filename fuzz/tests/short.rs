//! Each target on a fixed series of inputs, and on its corpus.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, abort};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use fastrand::Rng;
use libtest_mimic::{Arguments, Trial};
use millrace_fuzz::{TARGETS, Target, guard, judge};

/// Drawn inputs of each target.
const INPUTS: u64 = 80;

/// Wall-clock time after which an input hangs: the machine may be busy with something else.
const HANGS: Duration = Duration::from_secs(120);

/// Set for the process that runs the tests.
const CONFINED: &str = "MILLRACE_FUZZ_CONFINED";

/// What a failure shows of what was printed.
const LINES: usize = 60;

/// The tests run in a process of their own: the sandbox is entered before there are other threads, what elements print is
/// nobody's concern unless a test fails, and somebody removes the folder in the end.
fn main() -> ExitCode {
    if std::env::var_os(CONFINED).is_some() {
        return confined();
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(std::env::args_os().skip(1)).env(CONFINED, "1").env("TMPDIR", folder.path());
    let status = tests.stderr(File::create(&log).unwrap()).status().unwrap();
    if status.success() {
        return ExitCode::SUCCESS;
    }
    let printed = fs::read(&log).unwrap();
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<&str> = printed.lines().collect();
    eprintln!("{}\n{status}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
    ExitCode::FAILURE
}

fn confined() -> ExitCode {
    guard::enter(&[]).unwrap();
    let mut arguments = Arguments::from_args();
    // Memory is counted for all threads together.
    arguments.test_threads = Some(1);
    let trial = |target: &'static Target| {
        Trial::test(format!("{} passes", target.name), move || {
            run(target);
            Ok(())
        })
    };
    let limits = Trial::test("memory has a limit", || {
        memory_has_a_limit();
        Ok(())
    });
    let trials = TARGETS.iter().map(trial).chain([limits]).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// As much as the input may take there is, and no more.
fn memory_has_a_limit() {
    let there_is = |bytes: usize| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    judge::judge(|_| assert!(there_is(100 << 20) && !there_is(300 << 20)), b"short");
    judge::judge(|_| assert!(there_is(300 << 20)), &[0; 150_000]);
    assert!(there_is(300 << 20));
}

fn run(target: &'static Target) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = fs::read_dir(&corpus).into_iter().flatten().map(|file| file.unwrap().path());
    let mut inputs: Vec<(String, Vec<u8>)> =
        files.map(|file| (file.display().to_string(), fs::read(&file).unwrap())).collect();
    assert!(!inputs.is_empty(), "{} is empty", corpus.display());
    inputs.extend((0..INPUTS).map(|seed| {
        let mut random = Rng::with_seed(seed);
        let length = random.usize(0..target.longest.min(1024));
        (format!("seed {seed}"), (0..length).map(|_| random.u8(..)).collect())
    }));
    let begun = watch();
    // What is found out once counts for no input.
    (target.run)(&[0; 64]);
    for (name, input) in inputs {
        begun.send(format!("{} {name}", target.name)).unwrap();
        judge::judge(target.run, &input);
        guard::sweep();
    }
}

/// Ends the process, with the name of the input, when one hangs.
fn watch() -> Sender<String> {
    let (begun, begins) = channel();
    std::thread::spawn(move || {
        let mut current = "the first input".to_owned();
        loop {
            match begins.recv_timeout(HANGS) {
                Ok(name) => current = name,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("it hangs: {current}");
                    abort();
                }
            }
        }
    });
    begun
}
