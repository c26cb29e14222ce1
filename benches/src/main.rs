//! `cargo xtask bench`: what packets cost, on the engine that users run.

mod anyfile;
mod callgrind;
mod cycles;
mod elements;
mod feed;
mod figures;
mod gate;
mod gpu;
mod graph;
mod io;
mod locks;
mod lookup;
mod lookup6;
mod machine;
mod matching;
mod mixed;
mod nat;
mod overhead;
mod own;
mod peers;
mod pyasn;
mod report;
mod rules;
mod threads;
mod traffic;
mod traffic6;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cycles::Subject;

/// Measures the speed of Millrace, beside its peers where they can be had.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// The table of targets: forwarders and routers beside DPDK's testpmd and l3fwd, on one core.
    Router(peers::targets::Options),
    /// Cycles a packet in a forwarder, a minimal router and the full router of the examples, on
    /// devices in memory.
    Cycles(cycles::Options),
    /// Cycles a packet in each element by itself.
    Elements(cycles::Options),
    /// `cycles` and `elements`.
    All(cycles::Options),
    /// Packets a second through interfaces, by each method, beside the kernel's bridge.
    Io(io::Options),
    /// Locked instructions that the loops of `gate` execute, and where.
    Locks(locks::Options),
    /// What `locks --probe` runs under callgrind.
    #[command(hide = true)]
    LocksProbe(locks::Probe),
    /// Packets a second from DPDK to DPDK, beside DPDK's own forwarder.
    Dpdk(peers::testpmd::Options),
    /// Packets a second on one thread and on two: full push, push to pull, pipelined; queues of
    /// their own and shared ones.
    Threads(threads::Options),
    /// IPv6 routing tables: building, lookups, changes, memory.
    Lookup6(lookup6::Options),
    /// Nanoseconds a lookup, memory, and changes a second of the routing tables, on the Internet's routes.
    Lookup(lookup::Options),
    /// What `lookup` runs under callgrind.
    #[command(hide = true)]
    LookupWorker(lookup::Worker),
    /// Mixed traffic, a third each rewritten, IPv4 and IPv6, beside IPv4 alone.
    Mixed(mixed::Options),
    /// Cycles a packet in network address translation, by the number of flows.
    Nat(nat::Options),
    /// Cycles a packet, time to compile and memory of IPFilter and IPClassifier, by their number of
    /// rules.
    Rules(rules::Options),
    /// The classifier beside DPDK's rte_acl and the pattern matcher beside Hyperscan, on one core.
    Match(matching::Options),
    /// Snap's figures: sections for a GPU against the CPU's elements. Checks both against each other; on machines without a
    /// GPU the host backend stands for one.
    Gpu(gpu::Options),
    /// What a GPU's bus, a launch and a submission cost.
    GpuCalibrate(gpu::Calibration),
    /// Instructions that hot loops take, held against the budget in benches/budget.json.
    Gate(gate::Options),
    /// Files that nobody has tuned, drawn by seed: checked without the optimiser, and measured beside the sum of their
    /// elements.
    Anyfile(anyfile::Options),
    /// What `anyfile` runs under callgrind.
    #[command(hide = true)]
    AnyfileWorker(anyfile::Worker),
    /// Instructions a packet of any configuration, beside those of its devices: counted by callgrind, the same on
    /// a busy machine and without counters.
    Own(own::Options),
    /// What `own` runs under callgrind.
    #[command(hide = true)]
    OwnWorker(own::Worker),
    /// What the framework costs: elements that do nothing, elements for single packets, counters.
    Overhead(overhead::Options),
    /// A turn of a program that `overhead` compares.
    #[command(hide = true)]
    OverheadWorker(overhead::Worker),
    /// The figures of the papers that this work stands on: tables, and plots with --svg.
    Figures(figures::Options),
    /// A part of a figure that runs in a process of its own.
    #[command(hide = true)]
    FiguresWorker(figures::Worker),
    /// What `gate` runs under callgrind.
    #[command(hide = true)]
    GateWorker(gate::Worker),
}

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("bench: built without optimisation; the figures say nothing");
    }
    let done = match Cli::parse().suite {
        Suite::Router(options) => options.run(),
        Suite::Cycles(options) => options.run(Subject::Routers),
        Suite::Elements(options) => options.run(Subject::Elements),
        Suite::All(options) => options.run(Subject::Both),
        Suite::Io(options) => options.run(),
        Suite::Locks(options) => options.run(),
        Suite::LocksProbe(probe) => {
            probe.run();
            Ok(())
        }
        Suite::Dpdk(options) => options.run(),
        Suite::Threads(options) => options.run(),
        Suite::Lookup6(options) => options.run(),
        Suite::Lookup(options) => options.run(),
        Suite::LookupWorker(options) => options.run(),
        Suite::Mixed(options) => options.run(),
        Suite::Nat(options) => options.run(),
        Suite::Rules(options) => options.run(),
        Suite::Match(options) => options.run(),
        Suite::Gpu(options) => options.run(),
        Suite::GpuCalibrate(options) => options.run(),
        Suite::Gate(options) => options.run(),
        Suite::Anyfile(options) => options.run(),
        Suite::AnyfileWorker(options) => options.run(),
        Suite::Own(options) => options.run(),
        Suite::OwnWorker(options) => options.run(),
        Suite::Overhead(options) => options.run(),
        Suite::OverheadWorker(options) => options.run(),
        Suite::Figures(options) => options.run(),
        Suite::FiguresWorker(options) => options.run(),
        Suite::GateWorker(options) => options.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
