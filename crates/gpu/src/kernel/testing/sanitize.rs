//! The kernels' one source with the compiler's sanitizers: every batch of the tests of kernels, and hostile ones, once more
//! in a program of C (`replay.c`) that the test compiles. compute-sanitizer does as much on a GPU; this needs none.
//!
//! Left out, with a line that says so, where the C compiler has no sanitizers.

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

/// Tables larger than this are replayed this many times: those of IPv4 have 32 MiB.
const LARGE: usize = 4 << 20;
const LARGE_CASES: usize = 6;

/// A program with the kernels, in a folder of its own.
struct Replay {
    folder: TempDir,
}

impl Replay {
    /// Compiles it; nothing where the compiler cannot, of which the test's name is told.
    fn build(test: &str, sanitizers: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let option = format!("-fsanitize={sanitizers}");
        let trial = folder.path().join("trial.c");
        fs::write(&trial, "int main(void) { return 0; }\n").unwrap();
        // It must run, too: the thread sanitizer does not with every layout of addresses.
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

    /// Replays the cases of tests, and says how many they were.
    fn replay(&self, tests: impl FnOnce()) -> usize {
        let child = Rc::new(RefCell::new(start(&self.program())));
        let (mut cases, mut large) = (Rc::new(RefCell::new(0)), 0);
        let (to, count) = (Rc::clone(&child), Rc::clone(&cases));
        let observer = move |case: &Case<'_>| {
            large += usize::from(case.table.len() * 4 > LARGE);
            if case.table.len() * 4 > LARGE && large > LARGE_CASES {
                return;
            }
            // Where it has ended, it says why below.
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

/// Whether a compiler makes a program.
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

/// As `replay.c` reads it.
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
    super::invert_turns_the_bytes_that_are_there_and_no_others();
    aho_corasick::random_sets_and_texts();
    aho_corasick::a_pattern_anywhere();
    aho_corasick::rules_that_nearly_alert();
    aho_corasick::the_protocol_is_that_of_the_network_header();
    aho_corasick::wrong_offsets_and_lengths();
    classify::tests::generated_rules_and_their_changes();
    classify::tests::no_rules_and_none_that_holds();
    table::tests::random_routes_of_ipv4();
    table::tests::many_hops_of_ipv4_take_wide_entries();
    table::tests::random_routes_of_ipv6();
    table::tests::hosts_of_ipv6();
    table::tests::a_packet_without_a_whole_address_has_no_route();
}

#[test]
fn no_kernel_reads_or_writes_beside_what_is_its_own() {
    let name = "no_kernel_reads_or_writes_beside_what_is_its_own";
    let Some(replay) = Replay::build(name, "address,undefined") else { return };
    let cases = replay.replay(all_tests);
    assert!(cases > 1000, "{cases}");
    // It finds what it is there to find: each byte that is not granted, and a table that is too short.
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
        super::invert_turns_the_bytes_that_are_there_and_no_others();
        aho_corasick::rules_that_nearly_alert();
        aho_corasick::wrong_offsets_and_lengths();
        classify::tests::no_rules_and_none_that_holds();
        table::tests::hosts_of_ipv6();
    });
    assert!(cases > 50, "{cases}");
    let output = Spoilt::Overlap.replay(&replay);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("data race"), "{errors}");
}

/// What is wrong with a case that must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoilt {
    /// The last row's text is not the kernel's.
    Grant,
    /// The last byte of the slot, which is text, is not there.
    Slot,
    Table,
    Result,
    /// A column of words begins between two.
    Alignment,
    /// Threads treat the same rows.
    Overlap,
}

impl Spoilt {
    /// Replays a good case of the pattern kernel, spoilt.
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
            // It may end before it has read all of it.
            let _ = child.stdin.as_mut().map(|pipe| send(pipe, &case, self == Self::Overlap));
            to.replace(Some(child.wait_with_output().unwrap()));
        };
        observe(Box::new(observer), hostile::a_text_to_the_last_byte);
        Rc::into_inner(output).unwrap().into_inner().unwrap()
    }
}
