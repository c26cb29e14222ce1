//! A router under test: made of a text, on virtual time, with packets that come and go by elements of its own.

use std::sync::Arc;

use millrace_core::clock::Clock;
use millrace_core::run::{Options, check, initialize, initialize_beside};
use millrace_core::services::Services;
use millrace_core::testing::{Catch, Feed, Remains};
use millrace_core::{Engine, Packet, Phase, Router, Timestamp};
use millrace_io::Devices;
use millrace_io::memory::{Interface, Network};
use millrace_lang::{Diagnostic, SourceMap, Style, render_all};

use crate::draw::known;

/// The devices that there are.
const DEVICES: usize = 2;

/// Rounds that a router has for its work at a time. Sources without end would take all of them.
const ROUNDS: u32 = 64;

/// A router, the elements that bring packets in, and those that take them out.
pub(crate) struct Bench {
    engine: Engine,
    feeds: Vec<Arc<Feed>>,
    catches: Vec<Arc<Catch>>,
}

impl Bench {
    /// The router of a text; none if something is wrong with it, and then the messages have been printed to nowhere.
    pub(crate) fn new(text: &str, threads: usize) -> Option<Self> {
        Self::with(text, threads, None)
    }

    /// As [`new`](Self::new), for a router that is to replace another one.
    fn with(text: &str, threads: usize, old: Option<&Arc<Router>>) -> Option<Self> {
        let mut map = SourceMap::default();
        match engine(text, &mut map, threads, old) {
            Ok(engine) => Some(Self::of(engine)),
            Err(diagnostics) => {
                assert!(diagnostics.iter().any(Diagnostic::is_error) || text.contains("Error"));
                render_all(&diagnostics, &map, Style::Snippet { color: false });
                None
            }
        }
    }

    fn of(engine: Engine) -> Self {
        let (feeds, catches) = ends(engine.router());
        Self { engine, feeds, catches }
    }

    /// The router.
    pub(crate) fn router(&self) -> &Arc<Router> {
        self.engine.router()
    }

    /// Gives packets to an element that brings them in, if there is one.
    pub(crate) fn give(&self, feed: usize, packets: Vec<Packet>) {
        if let Some(feed) = feed.checked_rem(self.feeds.len()).and_then(|at| self.feeds.get(at)) {
            feed.give(packets);
        }
    }

    /// Lets virtual time pass, as long as there are not too many rounds of work, and checks all balances.
    pub(crate) fn pass(&mut self, time: Timestamp) {
        let until = self.router().clock().now() + time;
        self.engine.run_rounds(until, ROUNDS);
        for catch in &self.catches {
            drop(catch.take());
        }
        assert_balanced(self.router());
    }

    /// Has a router of another text take this one's place, if it can.
    pub(crate) fn swap(&mut self, text: &str, threads: usize) {
        let Some(next) = Self::with(text, threads, Some(self.router())) else { return };
        let old = self.router().clone();
        old.replace(next.engine, |_| {});
        assert!(self.engine.succeed(), "a router is left that was to be replaced");
        (self.feeds, self.catches) = (next.feeds, next.catches);
        assert_balanced(self.router());
    }

    /// Stops the router in an orderly way. Each element accounts for its packets, and none stays in memory.
    pub(crate) fn end(self) {
        let Self { engine, feeds, catches } = self;
        let router = engine.router().clone();
        let remains = Remains::of(&router);
        router.enter(Phase::Draining);
        engine.run();
        assert_balanced(&router);
        drop((router, feeds, catches));
        assert_eq!(remains.names(), [""; 0]);
    }
}

/// The elements by which packets come and go.
fn ends(router: &Router) -> (Vec<Arc<Feed>>, Vec<Arc<Catch>>) {
    let feeds = (0..router.len()).filter_map(|id| router.element(id)).collect();
    (feeds, (0..router.len()).filter_map(|id| router.element(id)).collect())
}

/// The engine of a text; or what is wrong with it.
fn engine(
    text: &str,
    map: &mut SourceMap,
    threads: usize,
    old: Option<&Arc<Router>>,
) -> Result<Engine, Vec<Diagnostic>> {
    let known = known();
    let source = map.add("fuzz.click", text);
    let options = millrace_lang::Options { classes: Some(&known.names), ..Default::default() };
    let (graph, mut diagnostics) = millrace_lang::compile(map, source, &options);
    let is_sound = !diagnostics.iter().any(Diagnostic::is_error);
    let mut services = Services::default();
    services.insert(Devices(Box::new(network())));
    let clock = Clock::virtual_();
    let options = Options { threads, clock, services, ..Options::default() };
    let (router, found) = check(&graph, &known.registry, options);
    diagnostics.extend(found);
    match (router.filter(|_| is_sound), old) {
        (Some(router), None) => initialize(router, 1),
        (Some(router), Some(old)) => initialize_beside(router, 1, old),
        (None, _) => Err(diagnostics),
    }
}

/// Devices in memory; what they transmit comes to nobody.
fn network() -> Network {
    let network = Network::default();
    for n in 0..DEVICES {
        // Who sends with BLOCKING to a device that is full waits in real time, in vain, which costs more than an execution.
        let deep = |name| Interface { capacity: usize::MAX, ..Interface::new(name) };
        network.connect(deep(format!("eth{n}")), deep(format!("far{n}")));
    }
    network
}

/// Each element accounts for its packets.
fn assert_balanced(router: &Router) {
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(
            stats.balanced(),
            "{} :: {}({}): {stats:?}",
            element.name,
            element.class.name,
            element.config
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]
mod tests {
    use arbitrary::Unstructured;
    use fastrand::Rng;

    use super::*;
    use crate::draw::{Care, draw};

    /// A target whose routers never start finds nothing.
    #[test]
    fn some_of_the_drawn_configurations_run() {
        let runs = std::thread::spawn(|| {
            crate::guard::enter(&[]).unwrap();
            runs_of_drawn()
        });
        let runs = runs.join().unwrap();
        std::fs::remove_dir_all(crate::guard::folder().unwrap()).unwrap();
        assert!(runs >= 30, "{runs} of 300");
    }

    /// How many of 300 drawn configurations run.
    fn runs_of_drawn() -> usize {
        let mut random = Rng::with_seed(1);
        let mut runs = 0;
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..400).map(|_| random.u8(..)).collect();
            let text = draw(&mut Unstructured::new(&bytes), None, Care::Right).text;
            runs += usize::from(engine(&text, &mut SourceMap::default(), 1, None).is_ok());
        }
        runs
    }
}
