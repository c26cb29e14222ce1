//! The loops whose instructions are counted.

use std::hint::black_box;

use millrace_core::{Batch, checksum};
use millrace_elements::ip::lookup::Route;

use crate::callgrind::mark;
use crate::cycles::{Configuration, Length, Trace, suites};
use crate::overhead::chain;
use crate::traffic::{self, FRAME_LEN};

/// A loop with a name.
pub(super) struct Loop {
    /// Its name in the budget.
    pub(super) name: String,
    /// How often it is counted. What the time does besides, such as ARP tables that are cleaned once a second,
    /// is not in every count.
    pub(super) times: u32,
    work: Work,
}

enum Work {
    /// A configuration on the engine, with bursts of this length.
    Graph { configuration: Configuration, burst: usize, trace: Trace },
    /// Something that is done over and over, to so many packets each time.
    Calls(fn(), u64),
}

/// Routes in tables: what a lookup takes does not depend on how many there are beside, but filling a table
/// under callgrind takes its time.
const ROUTES: usize = 10_000;

/// The least packets that give the same count to a fraction of a percent from run to run.
const LENGTH: Length = Length { warm_up: 2048, slice: 4096, slices: 1, keep: false };

/// Elements that do more the longer it takes: their counts depend on the machine. (Counter keeps rates.)
const BY_THE_CLOCK: &[&str] = &["Counter"];

/// How often [`Work::Calls`] are made.
const CALLS: u64 = 2000;

/// The loops that have a budget and a name that is `wanted`.
///
/// # Errors
/// There is no traffic for them.
pub(super) fn all(wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Loop>> {
    let is_wanted = |one: &Loop| wanted(&one.name);
    let mut loops = Vec::new();
    // Tables and traffic take a while to make.
    if graphs(&[], &Trace::default()).iter().any(is_wanted) {
        let routes = traffic::routes(ROUTES);
        loops = graphs(&routes, &traffic::trace(&routes)?.into());
    }
    let calls: [(&str, fn(), u64); 5] = [
        ("packet, allocate and free 32", || allocate_and_free(32), 32),
        ("packet, allocate and free 256", || allocate_and_free(256), 256),
        ("checksum of 20 bytes", || checksum_of::<20>(), 1),
        ("checksum of 1460 bytes", || checksum_of::<1460>(), 1),
        ("checksum update", update_checksum, 1),
    ];
    loops.extend(calls.map(|(name, call, packets)| Loop {
        name: name.to_owned(),
        times: 1,
        work: Work::Calls(call, packets),
    }));
    loops.retain(is_wanted);
    Ok(loops)
}

fn graphs(routes: &[Route], trace: &Trace) -> Vec<Loop> {
    let graph = |name: String, configuration: &Configuration, burst| Loop {
        name,
        times: 1,
        work: Work::Graph { configuration: configuration.clone(), burst, trace: trace.clone() },
    };
    let mut loops = Vec::new();
    for configuration in suites::routers(routes) {
        let name = &configuration.graph.name;
        for burst in [32, 256] {
            let name = format!("{name}, bursts of {burst}");
            loops.push(Loop { times: 3, ..graph(name, &configuration, burst) });
        }
    }
    // What the engine takes for an element, whatever an optimiser makes of elements that it knows.
    for link in ["BenchPass", "BenchPacketwise", "BenchOneByOne"] {
        loops.push(graph(format!("chain of {link}"), &chain(link, 32), 32));
    }
    let elements = suites::elements(routes).into_iter();
    for configuration in elements.filter(|one| !BY_THE_CLOCK.contains(&one.graph.name.as_str())) {
        let name = format!("chain of {}", configuration.graph.name);
        loops.push(graph(name, &configuration, 32));
    }
    loops
}

impl Loop {
    /// Runs the loop between two marks. Returns the packets that it treated, or the calls.
    ///
    /// # Errors
    /// The configuration is wrong or loses packets.
    pub(super) fn run(&self) -> anyhow::Result<u64> {
        match &self.work {
            Work::Graph { configuration, burst, trace } => {
                let core = crate::machine::last_core()?;
                let run = configuration.run(*burst, core, trace, LENGTH)?;
                Ok(run.slices.iter().map(|slice| slice.packets).sum())
            }
            Work::Calls(call, packets) => {
                (0..CALLS).for_each(|_| call());
                mark();
                (0..CALLS).for_each(|_| call());
                mark();
                Ok(CALLS * packets)
            }
        }
    }
}

/// Takes packets and gives them back, each side with one call.
fn allocate_and_free(count: usize) {
    thread_local! {
        static BATCH: std::cell::RefCell<Batch> = std::cell::RefCell::default();
    }
    BATCH.with_borrow_mut(|batch| {
        batch.allocate(black_box(count), FRAME_LEN);
        black_box(&*batch);
        batch.clear();
    });
}

fn checksum_of<const LEN: usize>() {
    black_box(checksum::checksum(black_box(&[0x5a; LEN])));
}

fn update_checksum() {
    black_box(checksum::update(black_box(0xdd2f), black_box(0x5555), black_box(0x3285)));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn loops_have_names_of_their_own() {
        let loops = all(|_| true).unwrap();
        let names: HashSet<&str> = loops.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), loops.len());
        for name in ["forward, bursts of 32", "full-router, bursts of 256", "chain of DecIPTTL"] {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn a_loop_says_what_it_treated() {
        for one in all(|_| true).unwrap() {
            if let Work::Calls(_, packets) = one.work {
                assert_eq!(one.run().unwrap(), CALLS * packets, "{}", one.name);
            }
        }
        let forward = all(|name| name == "forward, bursts of 32").unwrap();
        assert_eq!(forward.len(), 1);
        assert_eq!(forward[0].run().unwrap(), LENGTH.slice);
    }
}
