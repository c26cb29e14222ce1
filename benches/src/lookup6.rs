//! Measures IPv6 routing tables: building, single lookups and batches, changes, memory.

use std::hint::black_box;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use millrace_core::isa;
use millrace_elements::ip::lookup::{Command, Hop, HopId, Order, Route, RouteTable};
use millrace_elements::ip6::lookup::TreeWriter;
use serde_json::json;

use crate::machine::Machine;
use crate::pyasn;
use crate::report::{self, rounded};
use crate::traffic6::{self, Route6};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A table with one route per line, `PREFIX NUMBER`, where the number stands for the next hop, as in the `.dat`
    /// files of pyasn (IPv4 lines and lines that begin with `;` are skipped); synthetic by default
    #[arg(value_name = "FILE")]
    table: Option<PathBuf>,

    /// How often lookups are measured; the best time counts
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Writes a report in JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

type Table = RouteTable<TreeWriter, Ipv6Addr>;

/// Lookups that are timed.
const LOOKUPS: usize = 1 << 19;

/// Addresses of a batch.
const BATCH: usize = 256;

/// The number of lookups that are timed together. It is so small that most such pieces run undisturbed.
const PIECE: usize = 1 << 14;

/// Routes that are removed and added again.
const UPDATES: usize = 500;

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// The file is not a table, or there is not enough memory.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let routes = match &self.table {
            Some(path) => read(path)?,
            None => traffic6::routes(traffic6::ROUTES),
        };
        let mut random = fastrand::Rng::with_seed(7);
        let mut building = f64::INFINITY;
        let mut table = Table::new(Order::Address)?;
        for _ in 0..self.rounds {
            let start = Instant::now();
            table = Table::new(Order::Address)?;
            table.load(&routes)?;
            building = building.min(start.elapsed().as_secs_f64() * 1e3);
        }

        // To any route, and to as many destinations as real traffic uses at a time.
        let any = (0..LOOKUPS).map(|_| {
            let route = random.choice(&routes).context("no routes")?;
            Ok(traffic6::address_in(route, &mut random).to_bits())
        });
        let any = any.collect::<anyhow::Result<Vec<u128>>>()?;
        let near: Vec<u128> =
            (0..LOOKUPS).map(|_| any.get(random.usize(..4096)).copied().unwrap_or(0)).collect();
        let time = |addresses: &[u128], run: fn(&Table, &[u128])| {
            rounded(per_lookup(self.rounds, addresses, |piece| run(&table, piece)))
        };
        let (one_any, one_near) = (time(&any, one_by_one), time(&near, one_by_one));
        let (batch_any, batch_near) = (time(&any, in_batches), time(&near, in_batches));
        let update = update(&table, &routes, &mut random)?;
        let (rib, tree) = table.memory();
        println!(
            "{} routes: built in {building:.1} ms, {:.1} MB and {:.1} MB for the routes themselves\n\
             a lookup, ns: any one by one {one_any}, in batches {batch_any}; near one by one {one_near}, \
             in batches {batch_near}\n\
             a change of one route: {update:.0} us",
            routes.len(),
            tree as f64 / 1e6,
            rib as f64 / 1e6,
        );
        let options = json!({ "suite": "lookup6", "rounds": self.rounds });
        let row = json!({
            "routes": routes.len(),
            "building_ms": rounded(building),
            "one_any_ns": one_any,
            "one_near_ns": one_near,
            "batch_any_ns": batch_any,
            "batch_near_ns": batch_near,
            "update_us": rounded(update),
            "tree_bytes": tree,
            "routes_bytes": rib,
        });
        report::write(self.json.as_deref(), &Machine::look(), options, vec![row])
    }
}

/// Nanoseconds per lookup on an otherwise idle machine: each piece of the work is done several times, and its best
/// time counts.
fn per_lookup(rounds: u32, addresses: &[u128], mut run: impl FnMut(&[u128])) -> f64 {
    let mut best = vec![f64::INFINITY; addresses.len().div_ceil(PIECE)];
    for _ in 0..rounds {
        for (piece, best) in addresses.chunks(PIECE).zip(&mut best) {
            let start = Instant::now();
            run(piece);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.iter().sum::<f64>() * 1e9 / addresses.len() as f64
}

/// Each lookup waits for the previous one, as a packet's other work waits for its route.
fn one_by_one(table: &Table, addresses: &[u128]) {
    let snapshot = table.snapshot();
    let mut last = 0;
    for address in addresses {
        // Outputs are small numbers, so the address stays nearly the same.
        last = snapshot.lookup(address ^ u128::from(last >> 16)).map_or(0, |hop| hop.port);
    }
    black_box(last);
}

/// As LookupIP6Route does.
fn in_batches(table: &Table, addresses: &[u128]) {
    let mut hops = [HopId::NONE; BATCH];
    for batch in addresses.chunks(BATCH) {
        let snapshot = table.snapshot();
        isa::run(
            #[inline(always)]
            || snapshot.lookup_batch(batch, &mut hops),
        );
        for hop in hops {
            black_box(snapshot.hop(hop));
        }
    }
}

/// Microseconds per change: routes are removed and added again, each in a transaction of its own.
fn update(table: &Table, routes: &[Route6], random: &mut fastrand::Rng) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..UPDATES {
        let route = *random.choice(routes).context("no routes")?;
        let start = Instant::now();
        table.apply(&[Command::Remove(route.prefix, None)])?;
        table.apply(&[Command::Add(route)])?;
        times.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
    }
    report::median(times).context("no changes")
}

fn read(path: &Path) -> anyhow::Result<Vec<Route6>> {
    let route = |(prefix, system)| {
        let hop = pyasn::neighbour(system);
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, hop as u16 + 1);
        Route { prefix, hop: Hop { gateway, port: hop % 4 } }
    };
    Ok(pyasn::read(path)?.into_iter().map(route).collect())
}
