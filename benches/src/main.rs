//! `cargo xtask bench`: measures the cost of packets with the engine that users run.

mod anyfile;
mod callgrind;
mod cycles;
mod elements;
mod feed;
mod figures;
mod firewall;
mod gate;
mod gpu;
mod graph;
mod io;
mod locks;
mod lookup;
mod lookup6;
mod machine;
mod matching;
mod middlebox;
mod mixed;
mod nat;
mod overhead;
mod own;
mod peers;
mod pyasn;
mod report;
mod rules;
mod streams;
mod threads;
mod traffic;
mod traffic6;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cycles::Subject;

/// Measures the speed of Millrace, compared with other programs where they are available
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// The table of targets: forwarders and routers compared with DPDK's testpmd and l3fwd, on one core
    Router(peers::targets::Options),
    /// Cycles per packet of a forwarder, a minimal router and the full router of the examples, with devices in memory
    Cycles(cycles::Options),
    /// Cycles per packet of each element alone
    Elements(cycles::Options),
    /// `cycles` and `elements`
    All(cycles::Options),
    /// Packets per second through interfaces, by each method, compared with the kernel's bridge
    Io(io::Options),
    /// The stateful firewall of the examples between two hosts, compared with nftables and with the kernel's forwarding
    Firewall(firewall::Options),
    /// The word replacer and the stream IDS of the examples between web clients and a web server
    Streams(streams::Options),
    /// The program that sends the packets of `firewall`
    #[command(hide = true)]
    MiddleboxSender(middlebox::sender::Traffic),
    /// Locked instructions of the loops of `gate`, and where they are
    Locks(locks::Options),
    /// The program that `locks --probe` runs under callgrind
    #[command(hide = true)]
    LocksProbe(locks::Probe),
    /// Packets per second from DPDK to DPDK, compared with DPDK's own forwarder
    Dpdk(peers::testpmd::Options),
    /// Packets per second on one thread and on two: full push, push to pull, pipelined; separate and shared queues
    Threads(threads::Options),
    /// IPv6 routing tables: building, lookups, changes, memory
    Lookup6(lookup6::Options),
    /// Nanoseconds per lookup, memory and changes per second of the routing tables, with the Internet's routes
    Lookup(lookup::Options),
    /// The program that `lookup` runs under callgrind
    #[command(hide = true)]
    LookupWorker(lookup::Worker),
    /// Mixed traffic, a third each rewritten, IPv4 and IPv6, compared with IPv4 alone
    Mixed(mixed::Options),
    /// Cycles per packet of network address translation, by the number of flows
    Nat(nat::Options),
    /// Cycles per packet, compile time and memory of IPFilter and IPClassifier, by the number of rules
    Rules(rules::Options),
    /// The classifier compared with DPDK's rte_acl, and the pattern matcher compared with Hyperscan, on one core
    Match(matching::Options),
    /// Snap's figures: GPU sections compared with the CPU's elements, whose results must be equal; without a GPU, the
    /// host backend is used
    Gpu(gpu::Options),
    /// The cost of a GPU's bus, of a launch and of a submission
    GpuCalibrate(gpu::Calibration),
    /// Instructions of hot loops, compared with the budget in benches/budget.json
    Gate(gate::Options),
    /// Random configurations: checked with and without the optimiser, and compared with the sum of their elements
    Anyfile(anyfile::Options),
    /// The program that `anyfile` runs under callgrind
    #[command(hide = true)]
    AnyfileWorker(anyfile::Worker),
    /// Instructions per packet of any configuration, without those of its devices, counted by callgrind
    Own(own::Options),
    /// The program that `own` runs under callgrind
    #[command(hide = true)]
    OwnWorker(own::Worker),
    /// The cost of the framework: elements that do nothing, elements for single packets, counters
    Overhead(overhead::Options),
    /// A turn of a program that `overhead` compares
    #[command(hide = true)]
    OverheadWorker(overhead::Worker),
    /// The figures of the papers that Millrace builds on: tables, and plots with --svg
    Figures(figures::Options),
    /// A part of a figure that runs in a process of its own
    #[command(hide = true)]
    FiguresWorker(figures::Worker),
    /// The program that `gate` runs under callgrind
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
        Suite::Firewall(options) => options.run(),
        Suite::Streams(options) => options.run(),
        Suite::MiddleboxSender(traffic) => traffic.run(),
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
