//! Network address translation by the number of flows, compared with forwarding without it.

use std::path::PathBuf;

use anyhow::Context;
use etherparse::PacketBuilder;
use serde_json::json;

use crate::cycles::{self, Configuration, Length, Trace};
use crate::graph::Graph;
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::traffic::FRAME_LEN;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Most packets at a time.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: u16,

    /// The number of flows, whose packets arrive in turn; may be given several times
    #[arg(long, value_name = "N", default_values_t = [1, 4096, 65_536, 1_000_000], value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    flows: Vec<u32>,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Source ports of the flows to one destination.
const PORTS: u32 = 60_000;

/// Frames of this number of flows from inside, one per flow and at least `least`, in random order.
pub(crate) fn frames(flows: u32, least: usize) -> anyhow::Result<Vec<[u8; FRAME_LEN]>> {
    let mut random = fastrand::Rng::with_seed(flows.into());
    let mut order: Vec<u32> = (0..flows).cycle().take((flows as usize).max(least)).collect();
    random.shuffle(&mut order);
    let frame = |flow: u32| -> anyhow::Result<[u8; FRAME_LEN]> {
        let [_, a, b, c] = (flow % 65_521).to_be_bytes();
        let destination = u32::from_be_bytes([44, 0, 0, 1]) + flow / PORTS;
        let port = u16::try_from(2000 + flow % PORTS)?;
        let packet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 10, 0, 0, 1])
            .ipv4([10, a, b, c], destination.to_be_bytes(), 64)
            .udp(port, 53);
        let mut bytes = Vec::with_capacity(FRAME_LEN);
        packet.write(&mut bytes, &[0; 18])?;
        bytes.as_slice().try_into().context("a frame of another length")
    };
    order.into_iter().map(frame).collect()
}

fn configuration(name: &str, text: &str) -> Configuration {
    let graph = Graph::new(name, text);
    Configuration { graph, class: None }
}

/// Cycles per packet of forwarding and of translation, by round. Every flow is known when the measurement begins.
fn cycles(options: &Options, flows: u32, length: Length) -> anyhow::Result<Vec<[f64; 2]>> {
    let core = options.core.map_or_else(machine::last_core, Ok)?;
    let trace = Trace::from(frames(flows, 512)?);
    let forward = configuration("forward", include_str!("../configs/forward.click"));
    let nat = configuration("nat", include_str!("../configs/nat.click"));
    let burst = usize::from(options.burst);
    // In whole bursts.
    let warm_up = length.warm_up.max(trace.len() as u64).next_multiple_of(burst as u64);
    nat.gate(burst, core, &trace)?;
    let cycles = |configuration: &Configuration| {
        let length = Length { warm_up, ..length };
        let run = configuration.run(burst, core, &trace, length)?;
        run.cycles().context("no slice was timed")
    };
    (0..options.rounds).map(|_| Ok([cycles(&forward)?, cycles(&nat)?])).collect()
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// The translator loses packets, or its results depend on the length of bursts.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let machine = Machine::look();
        println!("{:>9}{:>10}{:>10}", "flows", "forward", "nat");
        let mut rows = Vec::new();
        for &flows in &self.flows {
            let rounds = cycles(self, flows, cycles::LENGTH)?;
            let middle = |of: fn(&[f64; 2]) -> f64| median(rounds.iter().map(of).collect());
            let (forward, nat) = (middle(|round| round[0]), middle(|round| round[1]));
            let (forward, nat) = forward.zip(nat).context("no rounds")?;
            println!("{flows:>9}{forward:>10.1}{nat:>10.1}");
            rows.push(json!({
                "workload": "nat",
                "flows": flows,
                "forward_cycles": rounded(forward),
                "nat_cycles": rounded(nat),
            }));
        }
        println!("cycles a packet");
        let options = json!({
            "suite": "nat", "rounds": self.rounds, "burst": self.burst, "frame": FRAME_LEN,
        });
        report::write(self.json.as_deref(), &machine, options, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_all_flows_get_through() {
        let length = Length { warm_up: 256, slice: 512, slices: 2, keep: false };
        let options = Options { rounds: 1, burst: 32, flows: Vec::new(), core: None, json: None };
        let cycles = cycles(&options, 3000, length).unwrap();
        assert!(cycles[0].iter().all(|cycles| *cycles > 0.0));
    }
}
