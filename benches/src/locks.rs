//! Counts locked instructions on the path of a packet: how many a configuration executes, and where.
//!
//! A locked instruction (one with the prefix `lock`, or `xchg` with memory) waits until all earlier stores have left
//! the processor's store buffer. That takes some twenty cycles on an idle machine, and more if the packets' cache
//! lines have not arrived yet. Callgrind counts how often each instruction was executed between two marks
//! ([`crate::callgrind`]). The files of the program show which of them are locked.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use millrace_testkit::find_program;
use serde_json::Value;

use crate::callgrind::{MARK, mark, tell};
use crate::machine;

/// What to count.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Counts only the loops of `gate` whose names contain this; may be given several times
    #[arg(long, value_name = "NAME", default_value = "bursts of 32")]
    only: Vec<String>,

    /// Fails if a loop executes more locked instructions per batch than this
    #[arg(long, value_name = "COUNT")]
    most: Option<f64>,

    /// Counts those of a mutex instead, whose number is known
    #[arg(long, hide = true)]
    probe: bool,
}

/// The program that runs under callgrind to check that locked instructions are found
#[derive(clap::Args)]
pub(crate) struct Probe {}

impl Probe {
    /// Takes and releases a lock repeatedly.
    pub(crate) fn run(&self) {
        const TIMES: u64 = 100;
        let mutex = Mutex::new(0);
        let add = || *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        mark();
        (0..TIMES).for_each(|_| black_box(add)());
        mark();
        tell("a mutex, taken and given back", TIMES);
    }
}

/// The locked instructions of a loop.
struct Locked {
    name: String,
    packets: u64,
    /// How often they were executed, by function.
    by_function: BTreeMap<String, u64>,
}

impl Options {
    /// Counts, and prints the results.
    ///
    /// # Errors
    /// There is no Valgrind, the loops do not run, or one has too many locked instructions.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        ensure!(cfg!(target_arch = "x86_64"), "locked instructions are those of x86-64");
        let mut worst = 0.0f64;
        let mut counted = count(&self.worker())?;
        // Work that depends on the time is not in every turn of a loop.
        counted.sort_by(|a, b| (&a.name, a.all()).cmp(&(&b.name, b.all())));
        counted.dedup_by(|later, first| later.name == first.name);
        ensure!(!counted.is_empty(), "--only: there is no loop of this name");
        for locked in &counted {
            worst = worst.max(locked.a_batch());
            println!(
                "{}: {:.2} locked instructions a batch, {} in {} packets",
                locked.name,
                locked.a_batch(),
                locked.all(),
                locked.packets
            );
            let mut functions: Vec<_> = locked.by_function.iter().collect();
            functions.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
            for (function, times) in functions.iter().take(20) {
                println!("{times:10}  {function}");
            }
        }
        let most = self.most.unwrap_or(f64::INFINITY);
        ensure!(worst <= most, "{worst:.2} locked instructions a batch are more than {most}");
        Ok(())
    }
}

impl Options {
    /// The arguments of the worker.
    fn worker(&self) -> Vec<&str> {
        if self.probe {
            return vec!["locks-probe"];
        }
        let only = self.only.iter().flat_map(|name| ["--only", name.as_str()]);
        ["gate-worker"].into_iter().chain(only).collect()
    }
}

impl Locked {
    fn all(&self) -> u64 {
        self.by_function.values().sum()
    }

    /// Per batch of the length in the loop's name, or per packet.
    fn a_batch(&self) -> f64 {
        let length = self.name.rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
        self.all() as f64 * length.unwrap_or(1.0) / self.packets.max(1) as f64
    }
}

/// Runs this program as a worker under callgrind.
fn count(worker: &[&str]) -> anyhow::Result<Vec<Locked>> {
    let valgrind = find_program("valgrind").context(
        "valgrind counts the instructions and is not installed (Debian's package valgrind)",
    )?;
    let place = tempfile::tempdir().context("a directory for counts")?;
    let mut command = Command::new(valgrind);
    command.args(["--quiet", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no"]);
    command.args(["--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--dump-before={MARK}"));
    command.arg(format!("--callgrind-out-file={}", place.path().join("out").display()));
    command.arg(std::env::current_exe().context("where this program is")?).args(worker);
    let mut objects = Objects::default();
    let mut counted = Vec::new();
    for line in machine::told(&mut command)?.lines() {
        let told: Value = serde_json::from_str(line).with_context(|| format!("told: {line}"))?;
        // As in `callgrind`: the first record is of the time before the first mark.
        let record = place.path().join(format!("out.{}", 2 * (counted.len() + 1)));
        let record = fs::read_to_string(&record).with_context(|| record.display().to_string())?;
        let mut by_function = BTreeMap::new();
        for executed in executed(&record) {
            if objects.is_locked(executed.object, executed.address) {
                *by_function.entry(executed.function.to_owned()).or_insert(0) += executed.times;
            }
        }
        let name = told["name"].as_str().unwrap_or_default().to_owned();
        let packets = told["packets"].as_u64().unwrap_or_default();
        counted.push(Locked { name, packets, by_function });
    }
    Ok(counted)
}

/// An executed instruction in a record.
#[derive(Debug, PartialEq, Eq)]
struct Executed<'a> {
    object: &'a str,
    function: &'a str,
    address: u64,
    times: u64,
}

/// The instructions of an uncompressed record (Valgrind's manual, "Callgrind Format Specification").
fn executed(record: &str) -> Vec<Executed<'_>> {
    let (mut object, mut function) = ("", "");
    let mut is_call = false;
    let mut all = Vec::new();
    for line in record.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            // The next line has the costs of what was called.
            is_call = true;
        } else if let Some(digits) = line.strip_prefix("0x") {
            let mut words = digits.split_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let times = words.last().and_then(|word| word.parse().ok());
            if let (Some(address), Some(times), false) = (address, times, is_call) {
                all.push(Executed { object, function, address, times });
            }
            is_call = false;
        }
    }
    all
}

/// The files that contain the instructions.
#[derive(Default)]
struct Objects(HashMap<String, Option<Object>>);

impl Objects {
    /// True if the instruction at an address of a file is locked. Code that cannot be read, such as code of the
    /// kernel, has no locked instructions.
    fn is_locked(&mut self, object: &str, address: u64) -> bool {
        let object =
            self.0.entry(object.to_owned()).or_insert_with_key(|name| Object::read(name.as_ref()));
        let code = object.as_ref().and_then(|object| object.code_at(address));
        code.is_some_and(is_locked)
    }
}

/// An ELF file.
struct Object {
    bytes: Vec<u8>,
    /// The segments: address in memory, length, and offset in the file.
    segments: Vec<(u64, u64, u64)>,
}

impl Object {
    fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let number = |at: usize, len: usize| {
            let field = bytes.get(at..at + len)?;
            Some(field.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)))
        };
        (bytes.get(..5)? == b"\x7fELF\x02").then_some(())?;
        let (first, length, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let segment = |n: u64| {
            const LOAD: u64 = 1;
            let at = usize::try_from(first + n * length).ok()?;
            let segment = (number(at + 16, 8)?, number(at + 32, 8)?, number(at + 8, 8)?);
            (number(at, 4)? == LOAD).then_some(segment)
        };
        let segments = (0..count).filter_map(segment).collect();
        Some(Self { segments, bytes })
    }

    fn code_at(&self, address: u64) -> Option<&[u8]> {
        let inside = |(start, len, _): &&(u64, u64, u64)| (*start..start + len).contains(&address);
        let (start, _, place) = self.segments.iter().find(inside)?;
        self.bytes.get(usize::try_from(address - start + place).ok()?..)
    }
}

/// True if the first instruction of the bytes is locked (Intel's manual, volume 2, chapter 2 and `XCHG`).
fn is_locked(code: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    let is_prefix = |byte: &&u8| {
        matches!(**byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | LOCK)
    };
    let prefixes = code.iter().take_while(is_prefix).count();
    let (prefixes, code) = code.split_at(prefixes);
    let code = match code {
        // REX.
        [0x40..=0x4f, rest @ ..] => rest,
        other => other,
    };
    let exchanges_memory = matches!(code, [0x86 | 0x87, form, ..] if form >> 6 != 3);
    prefixes.contains(&LOCK) || exchanges_memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_instructions_are_known_by_their_bytes() {
        // lock cmpxchg %ecx,0x18(%rbx); lock xadd %rax,(%rdi); xchg %al,0x98(%r12); data16 lock incw (%rax).
        for locked in [
            &[0xf0, 0x0f, 0xb1, 0x4b, 0x18][..],
            &[0xf0, 0x48, 0x0f, 0xc1, 0x07],
            &[0x41, 0x86, 0x84, 0x24, 0x98, 0, 0, 0],
            &[0x66, 0xf0, 0xff, 0x00],
        ] {
            assert!(is_locked(locked), "{locked:x?}");
        }
        // xchg %rax,%rbx; mov %eax,(%rdx); cmpxchg %ecx,(%rbx); nothing.
        for plain in [&[0x48, 0x87, 0xc3][..], &[0x89, 0x02], &[0x0f, 0xb1, 0x0b], &[]] {
            assert!(!is_locked(plain), "{plain:x?}");
        }
    }

    #[test]
    fn records_tell_what_was_executed() {
        let record = "positions: instr\nevents: Ir\n\nob=/bin/a\nfn=main\n0x10 3\n\
            cfn=other\ncalls=2 0x30\n0x14 70\n0x18 1\nfn=other\n0x30 5\ntotals: 9\n";
        let one =
            |function, address, times| Executed { object: "/bin/a", function, address, times };
        assert_eq!(
            executed(record),
            [one("main", 0x10, 3), one("main", 0x18, 1), one("other", 0x30, 5)]
        );
    }

    #[test]
    fn a_program_is_read_where_it_lies_in_memory() {
        let object = Object::read(&std::env::current_exe().unwrap()).unwrap();
        let (start, len, _) = object.segments[0];
        // The first segment begins with the file.
        assert_eq!(&object.code_at(start).unwrap()[..4], b"\x7fELF");
        assert!(object.code_at(start + len + (1 << 40)).is_none());
        assert!(Object::read(Path::new("/proc/self/status")).is_none());
    }
}
