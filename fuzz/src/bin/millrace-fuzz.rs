//! libFuzzer's program: runs the target that `MILLRACE_FUZZ` names. `cargo xtask fuzz` builds and starts it.

#![no_main]

use std::path::PathBuf;
use std::process::exit;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use millrace_fuzz::{TARGETS, Target, guard, judge};

/// The target.
static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(init: begin(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        judge::judge(target.run, data);
        guard::sweep();
    }
});

/// Chooses the target, forbids it what would do harm, and lets it find out what there is to know. libFuzzer goes on
/// writing to the folders that `MILLRACE_FUZZ_WRITES` names.
fn begin() {
    let name = std::env::var("MILLRACE_FUZZ").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("MILLRACE_FUZZ names no target: ‘{name}’");
        exit(2);
    };
    if starts_others() {
        return;
    }
    let folders = std::env::var_os("MILLRACE_FUZZ_WRITES").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()).collect();
    if let Err(error) = guard::enter(&folders) {
        eprintln!("elements could do harm here: {error}");
        exit(2);
    }
    let target = *TARGET.get_or_init(|| *target);
    (target.run)(&[0; 64]);
}

/// Whether this process runs no input, but starts others that do: with `-merge=1`, libFuzzer runs itself.
fn starts_others() -> bool {
    let has = |option: &str| std::env::args().any(|word| word == option);
    has("-merge=1") && !has("-merge_inner=1")
}
