//! Instructions a lookup, counted by callgrind.

use anyhow::ensure;
use millrace_core::isa;
use serde_json::{Value, json};

use super::measure::Destinations;
use super::subject::STRUCTURES;
use crate::{callgrind, report, traffic};

/// Routes of the table.
const ROUTES: usize = 130_000;

/// What is run under callgrind: lookups in the structures of these names.
#[derive(clap::Args)]
pub(crate) struct Worker {
    names: Vec<String>,
}

impl Worker {
    /// Looks up between marks.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let routes = traffic::routes(ROUTES);
        let traffic = Destinations::few("1,024", 1024, &routes);
        let addresses = traffic.addresses.get(..1 << 16).unwrap_or(&traffic.addresses);
        for structure in STRUCTURES.iter().filter(|one| self.names.iter().any(|n| n == one.name)) {
            let subject = (structure.build)(&routes)?;
            callgrind::mark();
            subject.batched(addresses);
            callgrind::mark();
            callgrind::tell(structure.name, addresses.len() as u64);
            callgrind::mark();
            subject.single(addresses);
            callgrind::mark();
            callgrind::tell(structure.name, addresses.len() as u64);
        }
        Ok(())
    }
}

/// Counts instructions per lookup of structures, in batches and one by one, at the levels that Valgrind can present;
/// prints them.
///
/// # Errors
/// There is no Valgrind, or it fails.
pub(crate) fn count(names: &[&str]) -> anyhow::Result<Vec<Value>> {
    let words: Vec<&str> = std::iter::once("lookup-worker").chain(names.iter().copied()).collect();
    println!(
        "instructions a lookup, {ROUTES} routes\n{:<10}{:>10}{:>12}{:>12}",
        "structure", "isa", "in batches", "one by one"
    );
    let mut rows = Vec::new();
    for level in [isa::Level::Baseline, isa::Level::Avx2] {
        let counts = callgrind::count(&words, level, false)?;
        for pair in counts.chunks(2) {
            let [batched, single] = pair else { break };
            ensure!(batched.name == single.name, "the worker tells names out of order");
            let (batched_count, single_count) =
                (batched.per_packet(batched.instructions), single.per_packet(single.instructions));
            println!(
                "{:<10}{:>10}{batched_count:>12.1}{single_count:>12.1}",
                batched.name,
                level.name()
            );
            rows.push(json!({
                "kind": "instructions",
                "structure": batched.name,
                "isa": level.name(),
                "routes": ROUTES,
                "batched": report::rounded(batched_count),
                "single": report::rounded(single_count),
            }));
        }
    }
    println!();
    Ok(rows)
}
