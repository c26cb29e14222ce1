//! Measures the routing tables: building, lookups one by one and in batches, updates, memory.
//!
//! `cargo run --release -p millrace-elements --example lpm_bench [FILE]`
//!
//! Without a file the tables are synthetic, of 130,000 and 512,000 routes, always the same. A file has
//! a route a line, `PREFIX NUMBER`, the number standing for the next hop (as the `.dat` files of
//! pyasn have them, made from RouteViews; lines that start with `;` do not count).

use std::collections::HashSet;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Instant;

use millrace_core::net::Ipv4Prefix;
use millrace_elements::ip::lookup::{
    Command, Dir24x8Writer, Error, FibWriter, Hop, HopId, Order, Prefix, RadixWriter, RangesWriter,
    Route, RouteTable,
};

/// Different next hops.
const HOPS: u32 = 64;

/// Lookups of each kind.
const LOOKUPS: usize = 1 << 21;

/// Addresses of a batch.
const BATCH: usize = 256;

/// Lookups that are timed together: so few that most such pieces run undisturbed.
const PIECE: usize = 1 << 14;

/// Routes that are removed and added again.
const UPDATES: usize = 100_000;

/// Of these as many are timed together.
const UPDATES_TOGETHER: usize = 200;

fn main() -> ExitCode {
    let tables = match std::env::args().nth(1) {
        None => vec![synthetic(130_000), synthetic(512_000)],
        Some(path) => match read(&path) {
            Ok(routes) => vec![routes],
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        },
    };
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "structure",
        "routes",
        "build",
        "update",
        "one",
        "one,near",
        "batch",
        "batch,near",
        "structure",
        "routes"
    );
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "", "", "ms", "ns", "ns", "ns", "ns", "ns", "MB", "MB"
    );
    for routes in tables {
        measure::<Dir24x8Writer>("DIR-24-8", &routes);
        measure::<RangesWriter>("ranges", &routes);
        measure::<RadixWriter>("radix", &routes);
    }
    ExitCode::SUCCESS
}

fn measure<W: FibWriter>(name: &str, routes: &[Route]) {
    let mut build = f64::INFINITY;
    let mut table = None;
    for _ in 0..5 {
        let start = Instant::now();
        match built::<W>(routes) {
            Ok(built) => table = Some(built),
            Err(error) => return eprintln!("{name}: {error}"),
        }
        build = build.min(start.elapsed().as_secs_f64() * 1e3);
    }
    let Some(table) = table else { return };

    let mut random = Random(7);
    let anywhere: Vec<u32> = (0..LOOKUPS).map(|_| random.address_in(routes)).collect();
    // Traffic keeps to some thousand destinations at a time.
    let few: Vec<u32> = anywhere.iter().copied().take(4096).collect();
    let near: Vec<u32> = (0..LOOKUPS).map(|_| few[random.below(few.len())]).collect();

    let one = |addresses| per_lookup(addresses, |piece| one_by_one(&table, piece));
    let batch = |addresses| per_lookup(addresses, |piece| in_batches(&table, piece));
    let (one_any, one_near) = (one(&anywhere), one(&near));
    let (batch_any, batch_near) = (batch(&anywhere), batch(&near));
    let update = update(&table, routes, &mut random);
    let (rib, structure) = table.memory();
    println!(
        "{name:<10} {:>8} {build:>8.0} {update:>8.0} {one_any:>10.1} {one_near:>10.1} {batch_any:>10.1} \
         {batch_near:>10.1} {:>10.1} {:>8.1}",
        routes.len(),
        structure as f64 / 1e6,
        rib as f64 / 1e6
    );
}

fn built<W: FibWriter>(routes: &[Route]) -> Result<RouteTable<W>, Error> {
    let table = RouteTable::new(Order::Address)?;
    table.load(routes)?;
    Ok(table)
}

/// Nanoseconds for a lookup, as if no other program ran: each piece of the work is done several times,
/// and its best time counts.
fn per_lookup(addresses: &[u32], mut run: impl FnMut(&[u32])) -> f64 {
    const PASSES: usize = 7;

    let mut best = vec![f64::INFINITY; addresses.len().div_ceil(PIECE)];
    for _ in 0..PASSES {
        for (piece, best) in addresses.chunks(PIECE).zip(&mut best) {
            let start = Instant::now();
            run(piece);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.iter().sum::<f64>() * 1e9 / addresses.len() as f64
}

/// Each lookup waits for the one before it, as a packet's other work waits for its route.
fn one_by_one<W: FibWriter>(table: &RouteTable<W>, addresses: &[u32]) {
    let snapshot = table.snapshot();
    let mut last = 0;
    for address in addresses {
        // Ports are small, so that the address stays as it is.
        last = snapshot.lookup(address ^ (last >> 16)).map_or(0, |hop| hop.port);
    }
    black_box(last);
}

fn in_batches<W: FibWriter>(table: &RouteTable<W>, addresses: &[u32]) {
    let mut hops = [HopId::NONE; BATCH];
    for batch in addresses.chunks(BATCH) {
        let snapshot = table.snapshot();
        snapshot.lookup_batch(batch, &mut hops);
        for hop in hops {
            black_box(snapshot.hop(hop));
        }
    }
}

/// Nanoseconds for an update, the median over pieces: routes go and come back, each in a transaction
/// of its own.
fn update<W: FibWriter>(table: &RouteTable<W>, routes: &[Route], random: &mut Random) -> f64 {
    // Where a change makes new arrays, a few are enough.
    let count = if table.memory().1 < 10_000_000 { UPDATES / 100 } else { UPDATES };
    let picked: Vec<Route> = (0..count).map(|_| routes[random.below(routes.len())]).collect();
    let mut times = Vec::new();
    for routes in picked.chunks(UPDATES_TOGETHER) {
        let start = Instant::now();
        for route in routes {
            for command in [Command::Remove(route.prefix, None), Command::Add(*route)] {
                if let Err(error) = table.apply(&[command]) {
                    eprintln!("{error}");
                }
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / (2 * routes.len()) as f64);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A small generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 32) as usize % limit.max(1)
    }

    /// An address of a route's network.
    fn address_in(&mut self, routes: &[Route]) -> u32 {
        let prefix = routes[self.below(routes.len())].prefix;
        prefix.first() | (self.next() >> 32) as u32 & !prefix.mask()
    }

    fn hop(&mut self) -> Hop {
        let number = self.below(HOPS as usize) as u32;
        Hop { gateway: Ipv4Addr::new(10, 0, 0, number as u8 + 1), port: number % 4 }
    }
}

/// Prefix lengths and how many of 512,621 routes have them: RouteViews, 13 May 2014.
const LENGTHS: &[(u8, usize)] = &[
    (8, 16),
    (9, 12),
    (10, 30),
    (11, 90),
    (12, 259),
    (13, 487),
    (14, 974),
    (15, 1726),
    (16, 13_017),
    (17, 7050),
    (18, 11_917),
    (19, 24_936),
    (20, 35_828),
    (21, 37_624),
    (22, 57_782),
    (23, 47_385),
    (24, 270_023),
    (25, 918),
    (26, 1060),
    (27, 537),
    (28, 138),
    (29, 292),
    (30, 331),
    (31, 20),
    (32, 169),
];

/// Networks of 16 bits that have routes in the same table.
const NETWORKS: usize = 30_530;

/// A table that looks like the Internet's: its prefix lengths, in as many networks of 16 bits.
fn synthetic(count: usize) -> Vec<Route> {
    let mut random = Random(1);
    let networks: Vec<u32> =
        (0..NETWORKS).map(|_| (random.below(223 << 8) as u32 + (1 << 8)) << 16).collect();
    let total: usize = LENGTHS.iter().map(|(_, routes)| routes).sum();
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let mut place = random.below(total);
        let length = LENGTHS.iter().find(|(_, routes)| {
            let here = place < *routes;
            place = place.wrapping_sub(*routes);
            here
        });
        let length = length.map_or(24, |(length, _)| *length);
        let network = networks[random.below(networks.len())];
        let prefix = Prefix::new(network | random.below(1 << 16) as u32, length);
        if seen.insert(prefix) {
            routes.push(Route { prefix, hop: random.hop() });
        }
    }
    routes
}

fn read(path: &str) -> Result<Vec<Route>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with(';'));
    lines.map(|(number, line)| parse(line).ok_or(format!("line {number}: no route"))).collect()
}

fn parse(line: &str) -> Option<Route> {
    let (prefix, number) = line.trim().split_once(char::is_whitespace)?;
    let prefix = Prefix::try_from(prefix.parse::<Ipv4Prefix>().ok()?).ok()?;
    let number = number.trim().parse::<u32>().ok()?.wrapping_mul(2_654_435_761) >> 26;
    let hop = Hop { gateway: Ipv4Addr::new(10, 0, 0, number as u8 + 1), port: number % 4 };
    Some(Route { prefix, hop })
}
