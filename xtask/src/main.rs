//! The tasks of the repository: `cargo xtask test`, `cargo xtask conform`, `cargo xtask fuzz`,
//! `cargo xtask new-element`, `cargo xtask new-crate`, `cargo xtask docs`, `cargo xtask bench`,
//! `cargo xtask generate`, `cargo xtask kernels`, `cargo xtask sanitize`, `cargo xtask soak`,
//! `cargo xtask gpu-machine`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod conform;
mod data;
mod docs;
mod figures;
mod files;
mod floors;
mod fuzz;
mod generate;
mod gpu_machine;
mod house;
mod kernels;
mod l3fwd;
mod manual;
mod names;
mod new_crate;
mod new_element;
mod packages;
mod rivals;
mod sanitize;
mod shell;
mod soak;
mod tally;
mod test;

/// The tasks of the Millrace repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs everything that must pass: formatting, lints, all tests, documentation, house rules
    Test(test::Options),
    /// Runs configurations with expected output, with this or another program
    Conform(conform::Options),
    /// Searches for inputs that break something with libFuzzer, target by target
    Fuzz(fuzz::Options),
    /// Creates the skeleton of a new element, with its manual and its tests
    NewElement(new_element::Options),
    /// Creates a crate for elements of one's own, outside of this repository
    NewCrate(new_crate::Options),
    /// Writes generated figures, and builds the book with a page for each element
    Docs,
    /// Generates rule sets, traces, payloads and patterns from a seed
    #[command(subcommand)]
    Generate(generate::What),
    /// Compiles the GPU's kernels to PTX, and records the registers that they use
    Kernels,
    /// Measures the speed: the table of targets and other programs, and the cost of packets
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
    /// Runs models, Miri and sanitizers on `unsafe` and lock-free code
    Sanitize(sanitize::Options),
    /// Runs a router under traffic and faults for hours: hot swaps, interfaces that come and go, kills (needs root)
    Soak(soak::Options),
    /// Packs programs, tests, data and a script for a machine that has a GPU, but neither Rust nor a network
    GpuMachine(gpu_machine::Options),
}

fn main() -> ExitCode {
    let done = fuzz::compile().unwrap_or_else(task);
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the command line asks for.
fn task() -> anyhow::Result<ExitCode> {
    match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Conform(options) => conform::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::NewElement(options) => new_element::run(&options).map(|()| ExitCode::SUCCESS),
        Task::NewCrate(options) => new_crate::run(&options).map(|()| ExitCode::SUCCESS),
        Task::Docs => docs::run().map(|()| ExitCode::SUCCESS),
        Task::Generate(what) => generate::run(&what).map(|()| ExitCode::SUCCESS),
        Task::Kernels => kernels::run().map(|()| ExitCode::SUCCESS),
        Task::Bench(options) => bench::run(&options).map(|()| ExitCode::SUCCESS),
        Task::Sanitize(options) => sanitize::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::GpuMachine(options) => gpu_machine::run(&options).map(|()| ExitCode::SUCCESS),
    }
}
