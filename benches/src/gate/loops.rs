//! The loops whose instructions are counted.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::LazyLock;

use millrace_core::{Batch, checksum};
use millrace_elements::ip::lookup::Route;
use millrace_match::patterns::{Content, Dfa, Kind, PatternSet, Rule, Scratch, Text};
use millrace_match::rules::{Key, LiveRules, RuleSet};
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::trace::Trace as HeaderTrace;
use millrace_testkit::generate::{patterns, payload, rules as generate};

use crate::callgrind::mark;
use crate::cycles::{Configuration, Length, Trace, suites};
use crate::overhead::chain;
use crate::traffic::{self, FRAME_LEN};

/// A loop with a name.
pub(super) struct Loop {
    /// Its name in the budget.
    pub(super) name: String,
    /// How often it is counted. Work that depends on the time, such as cleaning ARP tables once a second, is not in
    /// every count.
    pub(super) times: u32,
    work: Work,
}

enum Work {
    /// A configuration on the engine, with bursts of this length.
    Graph { configuration: Configuration, burst: usize, trace: Trace },
    /// A function that is called this often, with this number of packets each time.
    Calls { call: fn(), packets: u64, times: u64 },
}

/// The number of routes in tables. The cost of a lookup does not depend on it, but filling a table under callgrind
/// takes time.
const ROUTES: usize = 10_000;

/// The minimum number of packets for which counts differ by less than a percent from run to run.
const LENGTH: Length = Length { warm_up: 2048, slice: 4096, slices: 1, keep: false };

/// Elements whose work depends on the time, so that their counts depend on the machine. (Counter keeps rates.)
const BY_THE_CLOCK: &[&str] = &["Counter"];

/// How often short functions are called, and functions that process many packets.
const OFTEN: u64 = 2000;
const SELDOM: u64 = 50;

/// A name, a function, the number of packets that it processes, and how often it is called.
type Call = (&'static str, fn(), u64, u64);

/// The loops that have a budget and a `wanted` name.
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
    let calls: [Call; 8] = [
        ("packet, allocate and free 32", || allocate_and_free(32), 32, OFTEN),
        ("packet, allocate and free 256", || allocate_and_free(256), 256, OFTEN),
        ("checksum of 20 bytes", || checksum_of::<20>(), 1, OFTEN),
        ("checksum of 1460 bytes", || checksum_of::<1460>(), 1, OFTEN),
        ("checksum update", update_checksum, 1, OFTEN),
        ("classify by 1,000 rules", classify, PACKETS as u64, SELDOM),
        ("search for 1,000 patterns, 64 bytes", || search::<64>(), PACKETS as u64, SELDOM),
        ("search for 1,000 patterns, 1,400 bytes", || search::<1400>(), PACKETS as u64, SELDOM),
    ];
    loops.extend(calls.map(|(name, call, packets, times)| Loop {
        name: name.to_owned(),
        times: 1,
        work: Work::Calls { call, packets, times },
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
    // The engine's cost of an element: for batches, for packets, and one that sends each packet by itself.
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
    /// Runs the loop between two marks. Returns the number of packets, or of calls.
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
            Work::Calls { call, packets, times } => {
                (0..*times).for_each(|_| call());
                mark();
                (0..*times).for_each(|_| call());
                mark();
                Ok(times * packets)
            }
        }
    }
}

/// Allocates and frees packets, each with one call.
fn allocate_and_free(count: usize) {
    thread_local! {
        static BATCH: RefCell<Batch> = RefCell::default();
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

/// The number of packets per call of the loops below.
const PACKETS: usize = 256;

/// Classifies keys of packets, each of which matches a rule.
fn classify() {
    static FIXTURE: LazyLock<(LiveRules, Vec<Key>)> = LazyLock::new(|| {
        let set = generate::RuleSet::new(&generate::ACL1, 1000).make();
        let live = LiveRules::new(RuleSet::parse(&generate::text(&set)).unwrap_or_default());
        let headers = HeaderTrace { misses: 0, ..HeaderTrace::new(PACKETS) }.make(&set);
        let key = |header: &_| Key::of_frame(&Frame::new(*header, b"payload").bytes());
        (live, headers.iter().map(key).collect())
    });
    let (live, keys) = &*FIXTURE;
    let mut found = [0; PACKETS];
    live.classify(black_box(keys), &mut found);
    black_box(found);
}

/// Searches payloads of Web requests, eight side by side.
fn search<const LEN: usize>() {
    static ENGINE: LazyLock<Option<Dfa>> = LazyLock::new(|| {
        let mut set = PatternSet::new();
        for pattern in patterns::made_up(1000, 1).into_iter().filter(|pattern| pattern.len() > 3) {
            set.push(Rule::of(Content::of(pattern))).ok()?;
        }
        Dfa::new(&set).ok()
    });
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut random = fastrand::Rng::with_seed(LEN as u64);
    let payloads: Vec<Vec<u8>> = (0..8).map(|_| payload::http(&mut random, LEN)).collect();
    let text = |bytes| Text { bytes, kind: Kind::Tcp };
    let texts: Vec<Text<'_>> = payloads.iter().map(|bytes| text(bytes)).collect();
    let mut found = [0; 8];
    if let Some(engine) = &*ENGINE {
        for _ in 0..PACKETS / 8 {
            SCRATCH
                .with_borrow_mut(|scratch| engine.firsts(black_box(&texts), &mut found, scratch));
        }
    }
    black_box(found);
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
            if let Work::Calls { packets, times, .. } = one.work {
                assert_eq!(one.run().unwrap(), times * packets, "{}", one.name);
            }
        }
        let forward = all(|name| name == "forward, bursts of 32").unwrap();
        assert_eq!(forward.len(), 1);
        assert_eq!(forward[0].run().unwrap(), LENGTH.slice);
    }
}
