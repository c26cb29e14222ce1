//! The kernels as CUDA C++, without a GPU: NVIDIA's compiler is a library that needs none.
//!
//! `cargo xtask kernels` runs these tests with `MILLRACE_BLESS` set: they write what they else compare with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use millrace_gpu::kernel::Kernel;
use millrace_testkit::announce;
use millrace_testkit::data::Data;
use serde_json::{Value, json};

use compiler::Compiler;

mod compiler;

/// An A100 and an H100. PTX of the former serves everything since.
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90"];
const PTX_ARCHITECTURE: &str = "compute_80";

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

fn is_blessing() -> bool {
    std::env::var_os("MILLRACE_BLESS").is_some_and(|value| !value.is_empty())
}

/// The compiler, or a line that the test is left out.
fn compiler(test: &str) -> Option<Compiler> {
    let folder = Data::Nvrtc.folder_or_skip(test)?;
    match Compiler::open(&folder) {
        Ok(compiler) => Some(compiler),
        // The library is there and cannot be loaded, as on another processor.
        Err(error) => {
            announce(test, &error);
            assert!(!is_blessing(), "{error}");
            None
        }
    }
}

/// What the compiler says of a kernel's machine code.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    registers: u64,
    stack: u64,
    spilled: u64,
}

/// Reads the log of the compiler's last step.
fn usage(log: &str) -> Option<Usage> {
    let before = |phrase: &str| {
        let at = log.find(phrase)?;
        log[..at].split_whitespace().next_back()?.parse::<u64>().ok()
    };
    Some(Usage {
        registers: before(" registers")?,
        stack: before(" bytes stack frame")?,
        spilled: before(" bytes spill stores")? + before(" bytes spill loads")?,
    })
}

#[test]
fn logs_are_read() {
    let log = "ptxas info    : 304 bytes gmem\n\
        ptxas info    : Compiling entry function 'mr_x' for 'sm_80'\n\
        ptxas info    : Function properties for mr_x\n\
        ptxas         .     24 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads\n\
        ptxas info    : Used 40 registers, used 0 barriers, 656 bytes cmem[0]\n";
    assert_eq!(usage(log), Some(Usage { registers: 40, stack: 24, spilled: 32 }));
    assert_eq!(usage("nothing"), None);
}

/// No error, no warning, nothing spilled, nothing on a stack, and no more registers than are granted: more would leave fewer
/// threads on a multiprocessor to hide what loads take.
#[test]
fn every_kernel_compiles_within_its_registers() {
    let Some(compiler) = compiler("every_kernel_compiles_within_its_registers") else { return };
    let version = compiler.version().unwrap();
    let path = kernels().join("registers.json");
    let mut used: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for kernel in Kernel::ALL {
        for architecture in ARCHITECTURES {
            let compiled = compiler.compile(kernel.name(), kernel.source(), architecture).unwrap();
            let log = &compiled.log;
            let usage = usage(log).unwrap_or_else(|| panic!("another log than known: {log}"));
            assert!(!log.contains("warning"), "{}: {log}", kernel.name());
            assert_eq!(
                (usage.stack, usage.spilled),
                (0, 0),
                "{} for {architecture}",
                kernel.name()
            );
            used.entry(kernel.name()).or_default().insert(architecture, usage.registers);
        }
    }
    let used = json!({ "nvrtc": version, "registers": used });
    if is_blessing() {
        fs::write(&path, format!("{used:#}\n")).unwrap();
        return;
    }
    let granted: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    if granted["nvrtc"] != used["nvrtc"] {
        // Another compiler, another count.
        return;
    }
    for kernel in Kernel::ALL {
        for architecture in ARCHITECTURES {
            let of = |table: &Value| table["registers"][kernel.name()][architecture].as_u64();
            let (granted, used) = (of(&granted), of(&used));
            assert!(
                used <= granted,
                "{} for {architecture} uses {used:?} registers and has {granted:?}; if it must, \
                 `cargo xtask kernels` grants them",
                kernel.name()
            );
        }
    }
}

/// FNV-1a, 64 bits (RFC 9923).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The first line of a kernel's PTX.
fn first_line(kernel: Kernel) -> String {
    format!(
        "// Made by `cargo xtask kernels` of sources with the hash {:016x}.\n",
        hash(kernel.source())
    )
}

/// Without a compiler, too.
#[test]
fn the_embedded_ptx_is_of_these_sources() {
    if is_blessing() {
        // The other test writes it.
        return;
    }
    for kernel in Kernel::ALL {
        let ptx = kernel.ptx();
        assert!(
            ptx.starts_with(&first_line(kernel)),
            "kernels/ptx/{}.ptx is not of these sources: run `cargo xtask kernels`",
            kernel.name()
        );
        let entry = format!(".visible .entry {}(", kernel.entry().to_str().unwrap());
        assert!(ptx.contains(&entry) && ptx.contains(".target sm_80"), "{}", kernel.name());
    }
}

#[test]
fn the_embedded_ptx_is_what_the_compiler_makes() {
    let Some(compiler) = compiler("the_embedded_ptx_is_what_the_compiler_makes") else { return };
    let granted = fs::read_to_string(kernels().join("registers.json")).unwrap_or_default();
    let granted: Value = serde_json::from_str(&granted).unwrap_or_default();
    let is_the_one = granted["nvrtc"] == json!(compiler.version().unwrap());
    for kernel in Kernel::ALL {
        let compiled = compiler.compile(kernel.name(), kernel.source(), PTX_ARCHITECTURE).unwrap();
        let ptx = first_line(kernel) + &compiled.ptx;
        if is_blessing() {
            let folder = kernels().join("ptx");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{}.ptx", kernel.name())), ptx).unwrap();
        } else if is_the_one {
            let name = kernel.name();
            assert!(kernel.ptx() == ptx, "kernels/ptx/{name}.ptx: run `cargo xtask kernels`");
        }
    }
}
