//! Graphs that are observed, compared with the same graphs when nobody looks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CAME, Seen, engine, random_configuration};
use crate::memory::Packet;
use crate::observe::{Loss, Observation, Observer, Passage};
use crate::router::Router;
use crate::{Lock, Reason};

/// Writes down what it sees.
#[derive(Default)]
struct Diary(Lock<Page>);

/// What became of a packet at an element, in order: it came, it began to be processed, it left.
#[derive(Default)]
struct Ways(Lock<Vec<(&'static str, usize)>>);

impl Observer for Ways {
    fn passes(&self, at: &Passage, packet: &Packet) {
        assert!(packet.identity() != 0);
        self.0.lock().push(("passes", at.connection));
    }

    fn begins(&self, at: &crate::observe::Begin, _: &Packet) {
        self.0.lock().push(("begins", at.element));
    }
}

#[test]
fn each_packet_goes_its_whole_way_before_the_next_one_begins() {
    let mut engine = engine("Feed(3) -> a :: Mark(1) -> b :: Mark(2) -> c :: Sink;", true);
    let router = engine.router().clone();
    let ways = Arc::new(Ways::default());
    let observer = ways.clone();
    let _observing = router.observe(Observation {
        connections: (0..3).collect(),
        drops: false,
        singly: true,
        observer,
    });
    engine.settle();
    let ways = ways.0.lock();
    let [a, b, c] = ["a", "b", "c"].map(|name| router.find(name).unwrap());
    let mut whole = 0;
    for (at, _) in ways.iter().enumerate().filter(|(_, way)| (way.0, way.1) == ("begins", a)) {
        // A packet without room for what is put in front of it moves to other memory.
        let rest = ways[at..].iter().map(|way| (way.0, way.1));
        let row = [("begins", a), ("passes", 1), ("begins", b), ("passes", 2), ("begins", c)];
        assert_eq!(rest.take(5).collect::<Vec<_>>(), row);
        whole += 1;
    }
    assert_eq!(whole, 9);
}

#[derive(Default)]
struct Page {
    passed: BTreeMap<usize, Vec<Vec<u8>>>,
    dropped: BTreeMap<(usize, Reason), u64>,
}

impl Observer for Diary {
    fn passes(&self, at: &Passage, packet: &Packet) {
        assert!(at.batch > 0);
        let mut page = self.0.lock();
        page.passed.entry(at.connection).or_default().push(packet.data().to_vec());
    }

    fn drops(&self, at: &Loss, packet: &Packet) {
        assert!(packet.len() >= 4);
        *self.0.lock().dropped.entry((at.element, at.reason)).or_default() += 1;
    }

    fn drops_unseen(&self, at: &Loss, count: usize) {
        *self.0.lock().dropped.entry((at.element, at.reason)).or_default() += count as u64;
    }
}

/// Runs a configuration on virtual time; observes the connections that are `chosen`.
fn run(
    text: &str,
    optimise: bool,
    chosen: Option<(Vec<usize>, bool)>,
) -> (Seen, Page, Arc<Router>) {
    let mut engine = engine(text, optimise);
    let router = engine.router().clone();
    let diary = Arc::new(Diary::default());
    let observing = chosen.map(|(connections, singly)| {
        let observer = diary.clone();
        router.observe(Observation { connections, drops: true, singly, observer })
    });
    CAME.with_borrow_mut(Vec::clear);
    engine.settle();
    drop(observing);
    let mut seen: Seen = Default::default();
    for (sink, trail, number) in CAME.take() {
        seen.0.entry((sink, trail)).or_default().push(number);
    }
    for id in 0..router.len() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", router.name_of(id));
        seen.1.insert(router.name_of(id).to_owned(), stats);
    }
    let page = std::mem::take(&mut *diary.0.lock());
    (seen, page, router)
}

fn the_same_when_seen(text: &str, random: &mut fastrand::Rng) {
    for count in [1, 40, 700] {
        let text = text.replace("COUNT", &count.to_string());
        for optimise in [true, false] {
            let (alone, page, router) = run(&text, optimise, None);
            assert!(page.passed.is_empty() && page.dropped.is_empty());
            let share = random.usize(1..4);
            let all = 0..router.connections().len();
            let chosen: Vec<usize> = all.filter(|_| random.usize(0..share) == 0).collect();
            let (seen, page, router) = run(&text, optimise, Some((chosen.clone(), false)));
            assert!(alone.0 == seen.0, "{text}: {chosen:?}");
            for (name, stats) in &alone.1 {
                let both = [stats, &seen.1[name]];
                let counts = both.map(|s| (s.received, s.sent, s.created, s.consumed));
                assert_eq!(counts[0], counts[1], "{text}: {chosen:?}: {name}");
                assert_eq!(both[0].drops, both[1].drops, "{text}: {chosen:?}: {name}");
            }
            page.is_true(&text, &router, &chosen);
        }
    }
}

impl Page {
    /// Whether what was seen is what the elements count.
    fn is_true(&self, text: &str, router: &Router, chosen: &[usize]) {
        for id in 0..router.len() {
            let stats = router.stats_of(id);
            let drops: Vec<(Reason, u64)> = self
                .dropped
                .range((id, Reason::Discarded)..)
                .take_while(|((element, _), _)| *element == id)
                .map(|(&(_, reason), &n)| (reason, n))
                .collect();
            assert_eq!(drops, stats.drops, "{text}: {}", router.name_of(id));
            let seen = |end: fn(&crate::graph::Link) -> usize, count: u64| {
                let links =
                    || router.connections().iter().enumerate().filter(|(_, l)| end(l) == id);
                if links().next().is_some() && links().all(|(at, _)| chosen.contains(&at)) {
                    let passed = links().map(|(at, _)| self.passed.get(&at).map_or(0, Vec::len));
                    assert_eq!(
                        passed.sum::<usize>() as u64,
                        count,
                        "{text}: {}",
                        router.name_of(id)
                    );
                }
            };
            seen(|link| link.0.0, stats.sent);
            seen(|link| link.1.0, stats.received);
        }
        // The trail of a packet begins with the mark of the element in front.
        for (&at, packets) in &self.passed {
            let ((from, _), _) = router.connections()[at];
            if router.class_of(from) == "Mark" {
                let config = router.elements().nth(from).map(|info| info.config.to_owned());
                let mark: u8 = config.and_then(|config| config.parse().ok()).unwrap();
                assert!(packets.iter().all(|data| data[0] == mark), "{text}: {at}");
            }
        }
    }
}

#[test]
fn who_is_seen_does_not_notice() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    let rounds = std::env::var("ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(40u64);
    for seed in seed..seed + rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        the_same_when_seen(&random_configuration(&mut random), &mut random);
    }
}

#[test]
fn packets_are_seen_in_the_order_in_which_they_pass() {
    let row = "Feed(300) -> l :: Late(7) -> Mark(1) -> m :: Mark(2) -> Sink; \
               Feed(300) -> s :: Split(2) -> Mark(3) -> m; s[1] -> Mark(4) -> m;";
    for optimise in [true, false] {
        for singly in [true, false] {
            let mut engine = engine(row, optimise);
            let router = engine.router().clone();
            let sink = router.links().across((router.find("m").unwrap(), 0), false).next();
            assert!(sink.is_some());
            let at = router.connections().iter().position(|link| Some(link.1) == sink).unwrap();
            let diary = Arc::new(Diary::default());
            let connections = (0..router.connections().len()).collect();
            let observer = diary.clone();
            let _observing =
                router.observe(Observation { connections, drops: true, singly, observer });
            CAME.with_borrow_mut(Vec::clear);
            engine.settle();
            let passed = std::mem::take(&mut diary.0.lock().passed);
            let came = CAME.take().into_iter().map(|(_, mut trail, number)| {
                trail.extend(number.to_be_bytes());
                trail
            });
            assert!(passed[&at] == came.collect::<Vec<_>>());
        }
    }
}

#[test]
fn an_observation_ends_with_its_guard() {
    let mut engine = engine("Feed(10) -> Mark(1) -> Sink;", true);
    let router = engine.router().clone();
    let diary = Arc::new(Diary::default());
    let observe = |singly| {
        let observer = diary.clone();
        router.observe(Observation { connections: vec![0, 0, 99], drops: false, singly, observer })
    };
    drop(observe(true));
    engine.settle();
    assert!(diary.0.lock().passed.is_empty());
    assert_eq!(Arc::strong_count(&diary), 1);
}
