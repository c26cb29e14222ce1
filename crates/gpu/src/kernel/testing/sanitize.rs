//! Runs the kernels' source with the sanitizers of the C compiler: every batch of the tests of kernels, and hostile
//! ones, in a C program (`replay.c`) that the test compiles. On a GPU, compute-sanitizer does similar checks.
//!
//! If the C compiler has no sanitizers, the tests are skipped with a message.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::{env, fs};

use millrace_testkit::announce;
use tempfile::TempDir;
use zerocopy::IntoBytes;

use super::case::{Case, Grant, Owner, observe};
use super::hostile;
use crate::kernel::{Kernel, Launch, aho_corasick, classify};
use crate::table;

/// Only the first [`LARGE_CASES`] cases with tables larger than this are replayed: those of IPv4 have 32 MiB.
const LARGE: usize = 4 << 20;
const LARGE_CASES: usize = 6;

/// A program with the kernels, in a folder of its own.
struct Replay {
    folder: TempDir,
}

impl Replay {
    /// Compiles it. `None` if the compiler cannot; then a message names the test.
    fn build(test: &str, sanitizers: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let option = format!("-fsanitize={sanitizers}");
        let trial = folder.path().join("trial.c");
        fs::write(&trial, "int main(void) { return 0; }\n").unwrap();
        // The program must also run: the thread sanitizer fails with some layouts of addresses.
        let works = compile(folder.path(), "trial", &option, &[&trial])
            && Command::new(folder.path().join("trial"))
                .output()
                .is_ok_and(|output| output.status.success());
        if !works {
            announce(test, &format!("the C compiler has no {option}"));
            return None;
        }
        let gpu = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut units = vec![gpu.join("src/kernel/testing/replay.c")];
        units.extend(Kernel::ALL.map(|kernel| gpu.join(format!("kernels/{}.cu", kernel.name()))));
        let units: Vec<&Path> = units.iter().map(AsRef::as_ref).collect();
        assert!(compile(folder.path(), "replay", &option, &units), "the kernels with {option}");
        Some(Self { folder })
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("replay")
    }

    /// Replays the cases of tests, and returns their number.
    fn replay(&self, tests: impl FnOnce()) -> usize {
        let child = Rc::new(RefCell::new(start(&self.program())));
        let (mut cases, mut large) = (Rc::new(RefCell::new(0)), 0);
        let (to, count) = (Rc::clone(&child), Rc::clone(&cases));
        let observer = move |case: &Case<'_>| {
            large += usize::from(case.table.len() * 4 > LARGE);
            if case.table.len() * 4 > LARGE && large > LARGE_CASES {
                return;
            }
            // If it has ended, the reason is reported below.
            let mut child = to.borrow_mut();
            if child.stdin.as_mut().is_some_and(|pipe| send(pipe, case, false).is_err()) {
                child.stdin = None;
            }
            *count.borrow_mut() += 1;
        };
        observe(Box::new(observer), tests);
        let output = Rc::into_inner(child).unwrap().into_inner().wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        let cases = *Rc::get_mut(&mut cases).unwrap().get_mut();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), cases.to_string());
        cases
    }
}

fn start(program: &Path) -> Child {
    Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// True if the compiler builds a program.
fn compile(folder: &Path, name: &str, option: &str, units: &[&Path]) -> bool {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-std=gnu11", "-O1", "-g", "-fno-strict-aliasing", "-fno-sanitize-recover=all"]);
    cc.args([option, "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(kernels);
    cc.arg("-o").arg(folder.join(name)).args(["-x", "c"]).args(units);
    let Ok(output) = cc.output() else { return false };
    let _ = io::stderr().write_all(&output.stderr);
    output.status.success()
}

/// Sends a case in the format that `replay.c` reads.
fn send(pipe: &mut impl Write, case: &Case<'_>, overlap: bool) -> io::Result<()> {
    let slot = case.before.len();
    for number in
        [case.kernel as usize, slot, case.table.len() * 4, case.table_at(), usize::from(overlap)]
    {
        pipe.write_all(&(number as u32).to_ne_bytes())?;
    }
    let granted: Vec<u8> =
        case.grants.iter().map(|grant| u8::from(grant.owner != Owner::Nobody)).collect();
    for bytes in
        [Launch::as_bytes(&case.launch), case.before, case.after, &granted, case.table.as_bytes()]
    {
        pipe.write_all(bytes)?;
    }
    Ok(())
}

/// The tests of kernels.
fn all_tests() {
    hostile::every_hostile_batch();
    super::invert_changes_only_the_bytes_that_the_packet_has();
    aho_corasick::random_sets_and_texts();
    aho_corasick::a_pattern_anywhere();
    aho_corasick::rules_that_nearly_alert();
    aho_corasick::the_protocol_is_that_of_the_network_header();
    aho_corasick::wrong_offsets_and_lengths();
    classify::tests::generated_rules_and_their_changes();
    classify::tests::packets_without_a_matching_rule_take_the_default();
    table::tests::random_routes_of_ipv4();
    table::tests::many_hops_of_ipv4_take_wide_entries();
    table::tests::random_routes_of_ipv6();
    table::tests::hosts_of_ipv6();
    table::tests::a_packet_without_a_whole_address_has_no_route();
}

#[test]
fn kernels_access_only_what_they_may() {
    let name = "kernels_access_only_what_they_may";
    let Some(replay) = Replay::build(name, "address,undefined") else { return };
    let cases = replay.replay(all_tests);
    assert!(cases > 1000, "{cases}");
    // It finds each access to a byte without permission, and a table that is too short.
    for (spoilt, expected) in [
        (Spoilt::Grant, "use-after-poison"),
        (Spoilt::Slot, "heap-buffer-overflow"),
        (Spoilt::Table, "heap-buffer-overflow"),
        (Spoilt::Result, "another result"),
        (Spoilt::Alignment, "misaligned address"),
    ] {
        let output = spoilt.replay(&replay);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{spoilt:?}: {errors}");
    }
}

#[test]
fn rows_can_be_treated_by_several_threads_at_once() {
    let name = "rows_can_be_treated_by_several_threads_at_once";
    let Some(replay) = Replay::build(name, "thread") else { return };
    let cases = replay.replay(|| {
        hostile::every_hostile_batch();
        super::invert_changes_only_the_bytes_that_the_packet_has();
        aho_corasick::rules_that_nearly_alert();
        aho_corasick::wrong_offsets_and_lengths();
        classify::tests::packets_without_a_matching_rule_take_the_default();
        table::tests::hosts_of_ipv6();
    });
    assert!(cases > 50, "{cases}");
    let output = Spoilt::Overlap.replay(&replay);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("data race"), "{errors}");
}

/// The error in a case that must be rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoilt {
    /// The last row's text is not accessible for the kernel.
    Grant,
    /// The slot lacks its last byte, which is text.
    Slot,
    Table,
    Result,
    /// A column of words is not aligned.
    Alignment,
    /// Threads process the same rows.
    Overlap,
}

impl Spoilt {
    /// Replays a valid case of the pattern kernel with this error.
    fn replay(self, replay: &Replay) -> Output {
        let output = Rc::new(RefCell::new(None));
        let (to, program) = (Rc::clone(&output), replay.program());
        let observer = move |case: &Case<'_>| {
            let (mut slot, mut after) = (case.before.to_vec(), case.after.to_vec());
            let (mut grants, mut table) = (case.grants.to_vec(), case.table.to_vec());
            let mut launch = case.launch;
            match self {
                Self::Grant => drop(grants.pop().map(|_| grants.push(Grant::default()))),
                Self::Slot => drop((slot.pop(), after.pop(), grants.pop())),
                Self::Table => table.truncate(table.len() / 2),
                Self::Result => after[launch.result.of(1)] ^= 1,
                Self::Alignment => launch.result.at += 2,
                Self::Overlap => {}
            }
            let case = Case {
                launch,
                before: &slot,
                after: &after,
                grants: &grants,
                table: &table,
                ..*case
            };
            let mut child = start(&program);
            // The program may end before it has read the whole case.
            let _ = child.stdin.as_mut().map(|pipe| send(pipe, &case, self == Self::Overlap));
            to.replace(Some(child.wait_with_output().unwrap()));
        };
        observe(Box::new(observer), hostile::a_text_to_the_last_byte);
        Rc::into_inner(output).unwrap().into_inner().unwrap()
    }
}
