//! The tasks of the repository: `cargo xtask test`, `cargo xtask conform`, `cargo xtask new-element`,
//! `cargo xtask docs`, `cargo xtask bench`, `cargo xtask generate`, `cargo xtask kernels`,
//! `cargo xtask gpu-machine`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod conform;
mod data;
mod docs;
mod figures;
mod floors;
mod generate;
mod gpu_machine;
mod house;
mod kernels;
mod l3fwd;
mod manual;
mod names;
mod new_element;
mod packages;
mod rivals;
mod shell;
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
    /// Everything that must be green: formatting, lints, all tests, documentation, house rules.
    Test(test::Options),
    /// Configurations with their expected output, against this or another program.
    Conform(conform::Options),
    /// The skeleton of a new element, with its manual and its tests.
    NewElement(new_element::Options),
    /// The figures that are generated, and the book with a page for each element.
    Docs,
    /// Rule sets, traces, payloads and patterns, made from a seed.
    #[command(subcommand)]
    Generate(generate::What),
    /// Compiles the GPU's kernels: their PTX, and the registers that they are granted.
    Kernels,
    /// The speed: the table of targets beside the peers, and what packets cost where.
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
    /// Programs, tests, data and a script for a machine that has a GPU, and neither Rust nor a network.
    GpuMachine(gpu_machine::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Conform(options) => conform::run(&options),
        Task::NewElement(options) => new_element::run(&options).map(|()| ExitCode::SUCCESS),
        Task::Docs => docs::run().map(|()| ExitCode::SUCCESS),
        Task::Generate(what) => generate::run(&what).map(|()| ExitCode::SUCCESS),
        Task::Kernels => kernels::run().map(|()| ExitCode::SUCCESS),
        Task::Bench(options) => bench::run(&options).map(|()| ExitCode::SUCCESS),
        Task::GpuMachine(options) => gpu_machine::run(&options).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
