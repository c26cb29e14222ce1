//! Runs scenarios in every order, and with each access weakened.

use std::collections::BTreeMap;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use loom::model::Builder;

use crate::part::{Part, Scenario};
use crate::sync::sites::{self, Site};

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The checker interrupts a thread where it could go on this many times in an execution.
    pub preemptions: usize,
    /// After this time the checker goes no further.
    pub longest: Duration,
}

impl Bounds {
    /// For the tests, which build without optimisation: all orders with one preemption. The time is that of a machine on
    /// which something is wrong.
    pub const TEST: Self = Self { preemptions: 1, longest: Duration::from_secs(300) };
    /// Seconds, for every day.
    pub const QUICK: Self = Self { preemptions: 2, longest: Duration::from_secs(20) };
    /// Minutes.
    pub const DEEP: Self = Self { preemptions: 3, longest: Duration::from_secs(120) };
}

/// What was found out about a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many executions were explored.
    pub executions: u64,
    /// Whether these are all within the bound on preemptions.
    pub complete: bool,
    /// What went wrong, if anything.
    pub failure: Option<String>,
    /// The time that it took.
    pub took: Duration,
    /// The accesses of the parts, with their orders.
    pub sites: BTreeMap<Site, Ordering>,
}

/// More steps than a scenario takes.
const MOST_STEPS: usize = 20_000;

/// Explores a scenario, with one access weakened if there is one given.
pub fn explore(scenario: &Scenario, bounds: Bounds, weakened: Option<Site>) -> Outcome {
    keep_quiet();
    let body = scenario.body;
    let executions = Arc::new(AtomicU64::new(0));
    let count = executions.clone();
    let start = Instant::now();
    let model = move || {
        sites::weaken(weakened);
        let mut builder = Builder::new();
        builder.preemption_bound = Some(bounds.preemptions);
        builder.max_duration = Some(bounds.longest);
        builder.max_branches = MOST_STEPS;
        builder.checkpoint_interval = 64;
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            sites::begin();
            body();
        });
        sites::seen()
    };
    // The checker leaves a thread in disorder when a model fails on it.
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).stack_size(16 << 20);
    let ended = thread.spawn(model).map(std::thread::JoinHandle::join);
    let took = start.elapsed();
    let (sites, failure) = match ended {
        Ok(Ok(sites)) => (sites, None),
        Ok(Err(panic)) => (BTreeMap::new(), Some(words_of(&*panic))),
        Err(error) => (BTreeMap::new(), Some(error.to_string())),
    };
    let executions = executions.load(Ordering::Relaxed);
    Outcome { executions, complete: took < bounds.longest, failure, took, sites }
}

/// What became of an access of a part that was as weak as there is.
#[derive(Clone, Debug)]
pub struct Weakened {
    /// The access.
    pub site: Site,
    /// The order that it has in the source.
    pub order: Ordering,
    /// Its line in the source.
    pub line: String,
    /// The scenario that failed, and how; `None` when all of them held.
    pub noticed: Option<(&'static str, String)>,
}

/// Weakens each access of a part in turn that stands in a line for which `takes` is true, until a scenario fails.
pub fn weaken(part: &Part, bounds: Bounds, takes: impl Fn(&str) -> bool) -> Vec<Weakened> {
    let seen: Vec<_> =
        part.scenarios.iter().map(|one| (one, explore(one, bounds, None).sites)).collect();
    let mut sites: BTreeMap<Site, Ordering> = BTreeMap::new();
    sites.extend(seen.iter().flat_map(|(_, sites)| sites).map(|(site, order)| (*site, *order)));
    sites.retain(|site, _| part.files.contains(&site.path().as_str()) && takes(&line_of(site)));
    let weakened = sites.into_iter().map(|(site, order)| {
        let scenarios = seen.iter().filter(|(_, sites)| sites.contains_key(&site));
        let noticed = scenarios.into_iter().find_map(|(scenario, _)| {
            Some((scenario.name, explore(scenario, bounds, Some(site)).failure?))
        });
        Weakened { site, order, line: line_of(&site), noticed }
    });
    weakened.collect()
}

/// The line of an access, without the blanks around it.
fn line_of(site: &Site) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = std::fs::read_to_string(format!("{root}{}", site.path())).unwrap_or_default();
    let line = text.lines().nth(site.line as usize - 1).unwrap_or_default();
    line.trim().to_owned()
}

const THREAD: &str = "model";

/// A model that fails says so in its outcome, not on the terminal: most of those that fail are weakened.
fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(THREAD) {
                before(info);
            }
        }));
    });
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    text.lines().next().unwrap_or_default().to_owned()
}
