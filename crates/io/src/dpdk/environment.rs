//! DPDK's environment (EAL): its options, start and end, and its messages in our words.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;

use millrace_core::memory::{Descriptor, register_external_release};
use millrace_core::{Lock, Packet};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::abi::{Mbuf, Table};
use super::plugin;

/// Megabytes of ordinary pages that DPDK gets without huge pages; they are used only when touched.
const ORDINARY_MEGABYTES: &str = "1024";

/// The options that the user gave, if any.
static CHOSEN: Lock<Option<Vec<String>>> = Lock::new(None);

/// The environment, or why it could not be started. It is started once in a process.
static STARTED: OnceLock<Result<Environment, String>> = OnceLock::new();

struct Environment {
    table: &'static Table,
    notes: Vec<String>,
}

/// Sets the options of DPDK's environment, as given after `--dpdk`. Only a call before DPDK [starts](start)
/// has an effect.
pub fn choose_options(options: Vec<String>) {
    *CHOSEN.lock() = Some(options);
}

/// Starts DPDK unless it runs. Call it before creating other threads. The calling thread stays on the cores
/// that it may run on.
///
/// # Errors
/// A sentence with advice. It is the same for later calls: DPDK starts once.
pub fn start() -> Result<(), String> {
    STARTED.get_or_init(try_start).as_ref().map(|_| ()).map_err(Clone::clone)
}

/// What the user should know about the start of DPDK, as sentences.
pub fn notes() -> &'static [String] {
    STARTED.get().and_then(|started| started.as_ref().ok()).map_or(&[], |running| &running.notes)
}

/// Ends DPDK, if it was started: closes its ports, which releases their devices. All packets must have been
/// freed by then. If mbufs have not come back to their pools, DPDK is left running, and a sentence reports
/// that.
pub fn finish() -> Option<String> {
    let table = table()?;
    // SAFETY: the environment runs; whether packets are left is what the function looks at first.
    match unsafe { (table.finish)() } {
        0 => None,
        left => Some(format!("DPDK: {left} mbufs were not returned to their pools")),
    }
}

/// The functions of the plugin, after DPDK has started.
pub(super) fn table() -> Option<&'static Table> {
    Some(STARTED.get()?.as_ref().ok()?.table)
}

/// DPDK's messages since the last call.
pub(super) fn messages(table: &Table) -> String {
    let mut text = vec![0u8; 16_384];
    // SAFETY: the plugin writes at most so many bytes.
    let length = unsafe { (table.messages)(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(length);
    String::from_utf8_lossy(&text).into_owned()
}

fn try_start() -> Result<Environment, String> {
    let table = plugin::load()?;
    let chosen = CHOSEN.lock().clone();
    let (options, mut notes) = complete(chosen, huge_pages_free(), &usable_cores())?;
    let arguments: Vec<CString> = std::iter::once(plugin::program().as_bytes().to_vec())
        .chain(options.iter().map(|option| option.clone().into_bytes()))
        .map(CString::new)
        .collect::<Result<_, _>>()
        .map_err(|_| "an option of --dpdk has a null byte".to_owned())?;
    let pointers: Vec<*const c_char> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    let verbose = options.iter().any(|option| option.starts_with("--log-level"));
    let cores = sched_getaffinity(None);
    // SAFETY: so many strings, which DPDK keeps pointers to: they are leaked below. The plugin calls
    // `released` with what `attach` was given.
    let result = unsafe {
        (table.start)(pointers.len() as c_int, pointers.as_ptr(), verbose.into(), released)
    };
    std::mem::forget(arguments);
    // DPDK pins the thread that starts it.
    if let Ok(cores) = cores {
        let _ = sched_setaffinity(None, &cores);
    }
    let said = messages(table);
    if result < 0 {
        return Err(explain(&said, result));
    }
    register_external_release(release);
    // SAFETY: the version is a string that lives as long as the library.
    let version = unsafe { std::ffi::CStr::from_ptr((table.version)()) };
    notes.insert(0, version.to_string_lossy().into_owned());
    notes.extend(devices_that_failed(&said));
    Ok(Environment { table, notes })
}

/// Returns mbufs to their pools when their last packet is dropped.
fn release(mbufs: &[NonNull<Descriptor>]) {
    if let Some(table) = table() {
        // SAFETY: the engine gives each mbuf that it got back once; a `NonNull` is a pointer.
        unsafe { (table.release)(mbufs.as_ptr().cast::<Mbuf>(), mbufs.len() as u32) };
    }
}

/// Called when a device is done with one of our packets.
///
/// # Safety
/// `owner` is a descriptor that [`Packet::become_mbuf`] gave up, and this is called once for it.
unsafe extern "C" fn released(owner: *mut c_void) {
    if let Some(descriptor) = NonNull::new(owner.cast()) {
        // SAFETY: the caller's promise.
        drop(unsafe { Packet::from_raw(descriptor) });
    }
}

/// The chosen options with those that the program adds, and what that means for the user.
fn complete(
    chosen: Option<Vec<String>>,
    huge_pages: bool,
    cores: &[usize],
) -> Result<(Vec<String>, Vec<String>), String> {
    let mut notes = Vec::new();
    let by_default = chosen.is_none();
    let mut options = chosen.unwrap_or_default();
    let has = |options: &[String], names: &[&str]| {
        options.iter().any(|option| {
            names.iter().any(|name| {
                let rest = option.strip_prefix(name);
                rest.is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with('=') || !name.starts_with("--")
                })
            })
        })
    };
    if has(&options, &["--help", "-h"]) {
        return Err("`dpdk-testpmd --help` lists the options of DPDK".to_owned());
    }
    // A secondary process uses the primary's pages.
    let attaches = options.iter().any(|option| {
        matches!(option.strip_prefix("--proc-type="), Some("secondary" | "auto"))
    }) || options.windows(2).any(|pair| {
        matches!(pair, [name, kind] if name == "--proc-type" && (kind == "secondary" || kind == "auto"))
    });
    if !huge_pages && !attaches && !has(&options, &["--no-huge"]) {
        if !by_default {
            return Err("DPDK needs huge pages and none are free: reserve some (`sysctl -w \
                        vm.nr_hugepages=512`), or use ordinary pages with `--no-huge`"
                .to_owned());
        }
        options.push("--no-huge".to_owned());
        notes.push(
            "DPDK uses ordinary pages, because no huge pages are free: this is slower and does \
             not work with cards; `sysctl -w vm.nr_hugepages=512` reserves huge pages"
                .to_owned(),
        );
    }
    if has(&options, &["--no-huge"]) {
        if !has(&options, &["-m"]) {
            options.extend(["-m", ORDINARY_MEGABYTES].map(str::to_owned));
        }
        // Two programs on ordinary pages share nothing, so nothing need stand in files.
        if !has(&options, &["--file-prefix", "--no-shconf", "--proc-type"]) {
            options.push("--no-shconf".to_owned());
        }
    } else if !has(
        &options,
        &["--in-memory", "--file-prefix", "--huge-dir", "--proc-type", "--legacy-mem"],
    ) && !has(&options, &["--huge-unlink", "--no-shconf"])
    {
        options.push("--in-memory".to_owned());
    }
    if !has(&options, &["--telemetry", "--no-telemetry"]) {
        options.push("--no-telemetry".to_owned());
    }
    // By default DPDK makes a thread for every core; ours are enough.
    if !has(&options, &["-l", "-c", "-s", "-S", "--lcores"]) {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        options.push(format!("--lcores=0@({})", cores.join(",")));
    }
    Ok((options, notes))
}

/// Whether there are free huge pages, of any size.
fn huge_pages_free() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    sizes.into_iter().any(|size| is_positive(&size.path().join("free_hugepages")))
}

fn is_positive(path: &Path) -> bool {
    let number = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    number.is_some_and(|number: u64| number > 0)
}

fn usable_cores() -> Vec<usize> {
    let set = sched_getaffinity(None);
    set.map_or_else(
        |_| vec![0],
        |set| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
    )
}

/// What went wrong at the start, as a sentence.
fn explain(said: &str, error: c_int) -> String {
    let line_with = |words: &str| said.lines().find(|line| line.contains(words)).map(plain);
    if let Some(line) = line_with("unrecognized option").or_else(|| line_with("invalid option")) {
        return format!("DPDK rejects its options: {line}");
    }
    if let Some(line) = line_with("option requires an argument") {
        return format!("DPDK rejects its options: {line}");
    }
    if said.contains("Is another primary process running") {
        return "another program uses DPDK under the same name: give this program another name \
                (`--file-prefix NAME`)"
            .to_owned();
    }
    if said.contains("primary process") || said.contains("for rte_mem_config") {
        return "there is no primary process to attach to: start it first (`--proc-type primary`), with the \
                same --file-prefix, and on huge pages, for ordinary ones are not shared"
            .to_owned();
    }
    if said.contains("hugepage") || said.contains("huge page") {
        return "DPDK finds no huge pages that it may use: reserve some (`sysctl -w \
                vm.nr_hugepages=512`), or use ordinary pages with `--no-huge`"
            .to_owned();
    }
    // The last word but the summaries says most.
    let mut lines = said.lines().rev().filter(|line| {
        line.starts_with("EAL:")
            && !line.contains("FATAL")
            && !line.contains("Invalid 'command line'")
    });
    let words = lines.next().map_or_else(
        || std::io::Error::from_raw_os_error(error.saturating_neg()).to_string(),
        plain,
    );
    format!("DPDK does not start: {words}")
}

/// A line of DPDK's output without the prefix that names its source.
fn plain(line: &str) -> String {
    line.split_once(": ").map_or(line, |(_, rest)| rest).trim().to_owned()
}

/// The devices of `--vdev` and on the PCI bus that DPDK could not use; it starts nevertheless.
fn devices_that_failed(said: &str) -> Vec<String> {
    let words = ["Driver cannot attach the device", "failed to initialize", "cannot be used"];
    let failed = said.lines().filter(|line| words.iter().any(|words| line.contains(words)));
    failed.map(|line| format!("DPDK: {}", plain(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(chosen: Option<&str>, huge_pages: bool) -> String {
        let chosen = chosen.map(|text| text.split_whitespace().map(str::to_owned).collect());
        complete(chosen, huge_pages, &[2, 3]).unwrap().0.join(" ")
    }

    #[test]
    fn options_are_completed() {
        let cases = [
            (None, true, "--in-memory --no-telemetry --lcores=0@(2,3)"),
            (None, false, "--no-huge -m 1024 --no-shconf --no-telemetry --lcores=0@(2,3)"),
            (Some("-l 1 --file-prefix x"), true, "-l 1 --file-prefix x --no-telemetry"),
            (Some("-c3 --telemetry"), true, "-c3 --telemetry --in-memory"),
            (
                Some("-l 1 --proc-type secondary"),
                false,
                "-l 1 --proc-type secondary --no-telemetry",
            ),
            (
                Some("--no-huge -m 64 --lcores=1"),
                false,
                "--no-huge -m 64 --lcores=1 --no-shconf --no-telemetry",
            ),
        ];
        for (chosen, huge_pages, expected) in cases {
            assert_eq!(completed(chosen, huge_pages), expected, "{chosen:?}");
        }
    }

    #[test]
    fn missing_huge_pages_are_announced_or_refused() {
        let (_, notes) = complete(None, false, &[0]).unwrap();
        assert!(notes[0].contains("ordinary pages"), "{notes:?}");
        let refused = complete(Some(vec!["--no-pci".to_owned()]), false, &[0]).unwrap_err();
        assert!(refused.contains("vm.nr_hugepages"), "{refused}");
    }

    #[test]
    fn failures_are_a_sentence() {
        let cases = [
            (
                "millrace: unrecognized option '--zebra'\n\nUsage: millrace [options]\n\nEAL: FATAL: Invalid \
                 'command line' arguments.\n",
                "DPDK rejects its options: unrecognized option '--zebra'",
            ),
            (
                "EAL: No free 2048 kB hugepages reported on node 0\nEAL: FATAL: Cannot get hugepage \
                 information.\n",
                "DPDK finds no huge pages that it may use: reserve some (`sysctl -w vm.nr_hugepages=512`), \
                 or use ordinary pages with `--no-huge`",
            ),
            (
                "EAL: Detected CPU lcores: 2\nEAL: Option --legacy-mem is not compatible with \
                 --in-memory\nEAL: FATAL: Invalid 'command line' arguments.\n",
                "DPDK does not start: Option --legacy-mem is not compatible with --in-memory",
            ),
            (
                "EAL: Cannot open '/var/run/dpdk/rte/config' for rte_mem_config\n",
                "there is no primary process to attach to: start it first (`--proc-type primary`), with the \
                 same --file-prefix, and on huge pages, for ordinary ones are not shared",
            ),
            ("", "DPDK does not start: Invalid argument (os error 22)"),
        ];
        for (said, expected) in cases {
            assert_eq!(explain(said, -22), expected);
        }
    }
}
