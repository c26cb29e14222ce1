//! Graphs that run as programs, compared with the same graphs run element by element.

mod classes;
mod observed;

use std::collections::BTreeMap;

use self::classes::{CAME, CLASSES, ENDS};
use crate::Registry;
use crate::clock::Clock;
use crate::run::{Engine, Options, check, initialize};
use crate::stats::ElementStats;

fn engine(text: &str, optimise: bool) -> Engine {
    let mut map = millrace_lang::SourceMap::default();
    let source = map.add("program.click", text);
    let (graph, found) =
        millrace_lang::compile(&mut map, source, &millrace_lang::Options::default());
    assert!(found.is_empty(), "{found:?}");
    let mut registry = Registry::linked();
    CLASSES.iter().for_each(|class| registry.add(class));
    let options = Options { clock: Clock::virtual_(), optimise, ..Options::default() };
    let (router, found) = check(&graph, &registry, options);
    assert!(found.is_empty(), "{found:?}");
    initialize(router.unwrap(), 1).unwrap()
}

/// The observable results of a run: for each sink and trail the packets in order, and the elements' counts.
type Seen = (BTreeMap<(String, Vec<u8>), Vec<u32>>, BTreeMap<String, ElementStats>);

fn run(text: &str, optimise: bool) -> Seen {
    let mut engine = engine(text, optimise);
    let router = engine.router().clone();
    CAME.with_borrow_mut(Vec::clear);
    engine.settle();
    let mut seen: Seen = Default::default();
    for (sink, trail, number) in CAME.take() {
        seen.0.entry((sink, trail)).or_default().push(number);
    }
    for id in 0..router.len() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", router.name_of(id));
        seen.1.insert(router.name_of(id).to_owned(), stats);
    }
    seen
}

fn same_both_ways(text: &str) {
    for count in [1, 7, 256, 1000] {
        let text = text.replace("COUNT", &count.to_string());
        let (ours, stats) = run(&text, true);
        let (theirs, others) = run(&text, false);
        for ((sink, trail), numbers) in &ours {
            assert!(numbers.is_sorted(), "{text}: {sink} {trail:?}: one was overtaken");
        }
        assert!(ours == theirs, "{text}");
        for (name, stats) in stats {
            let other = &others[&name];
            let both = [&stats, other].map(|s| (s.received, s.sent, s.created, s.consumed));
            assert_eq!(both[0], both[1], "{text}: {name}");
            assert_eq!(stats.drops, other.drops, "{text}: {name}");
        }
    }
}

#[test]
fn rows_branches_and_joins() {
    same_both_ways("Feed(COUNT) -> Mark(1) -> Marks(2) -> Sink;");
    same_both_ways(
        "Feed(COUNT) -> s :: Split(3) -> Mark(1) -> j :: Mark(9) -> Sink; s[1] -> Mark(2) -> Marks(5) -> j;
         s[2] -> Mark(3) -> t :: Split(2) -> j; t[1] -> Sink;",
    );
    // A step at which packets come from outside, too.
    same_both_ways(
        "Feed(COUNT) -> Mark(1) -> j :: Mark(2) -> s :: Split(2) -> j2 :: Mark(3) -> Sink; s[1] -> Mark(4) -> j2;
         Feed(COUNT) -> Mark(5) -> j; Feed(COUNT) -> Mark(6) -> j2;",
    );
}

#[test]
fn ways_that_lead_nowhere() {
    same_both_ways("Feed(COUNT) -> Mark(1) -> Mark(2);");
    same_both_ways("Feed(COUNT) -> Mark(1) -> Split(2);");
    // More ways than outputs.
    same_both_ways("Feed(COUNT) -> s :: Split(9); s[0] -> Sink; s[1] -> Sink;");
    same_both_ways("Feed(COUNT) -> Look(3) -> Sink;");
    same_both_ways("Feed(COUNT) -> Look(2) -> Mark(3);");
}

#[test]
fn loops() {
    same_both_ways("Feed(COUNT) -> u :: Until(8) -> Mark(1) -> u; u[1] -> Mark(2) -> Sink;");
    same_both_ways(
        "Feed(COUNT) -> Mark(3) -> u :: Until(9) -> Mark(1) -> Late(4) -> u; u[1] -> Sink;",
    );
}

#[test]
fn what_goes_aside_is_not_overtaken() {
    same_both_ways("Feed(COUNT) -> Mark(1) -> Late(10) -> Mark(2) -> Sink;");
    same_both_ways("Feed(COUNT) -> Mark(1) -> Late(10) -> Sink;");
    same_both_ways("Feed(COUNT) -> Late(7) -> Mark(1) -> Late(3) -> Late(2) -> Mark(2) -> Sink;");
    // The second packets go to a step further on, by a way of their own.
    same_both_ways(
        "Feed(COUNT) -> t :: Twice(6) -> Mark(1) -> j :: Mark(2) -> Sink; t[1] -> Mark(3) -> j;",
    );
    same_both_ways("Feed(COUNT) -> t :: Twice(6) -> Mark(1) -> Sink; t[1] -> Mark(3);");
    same_both_ways("Feed(COUNT) -> l :: Look(3) -> Mark(1) -> Sink; l[1] -> Mark(2) -> Sink;");
    same_both_ways(
        "Feed(COUNT) -> s :: Split(2) -> Late(3) -> j :: Mark(1) -> Sink; s[1] -> Mark(7) -> j;",
    );
}

#[test]
fn elements_are_called_behind_each_batch() {
    for optimise in [true, false] {
        ENDS.take();
        run("Feed(300) -> Mark(1) -> Ender -> Mark(2) -> Sink;", optimise);
        let ends = ENDS.take();
        assert_eq!(ends.iter().sum::<u32>(), 900);
        assert!(ends.iter().all(|&packets| packets > 0 && packets <= 256), "{ends:?}");
    }
}

#[test]
fn joins_count_a_batch_that_comes_by_several_ways_once() {
    let text =
        "Feed(100) -> s :: Split(2) -> Mark(1) -> j :: Mark(9) -> Sink; s[1] -> Mark(2) -> j;";
    let (ours, others) = (run(text, true).1, run(text, false).1);
    for (name, stats) in ours {
        assert_eq!(stats.batches, others[&name].batches, "{name}");
    }
}

#[test]
fn a_long_row_takes_no_more_stack_than_a_thread_has() {
    const STEPS: usize = 10_000;
    let row: String = (0..STEPS).map(|_| "Late(1000000) -> ").collect();
    let text = format!("Feed(3) -> {row} Sink;");
    let (came, _) = run(&text, true);
    assert_eq!(came.values().map(Vec::len).sum::<usize>(), 9);
}

#[test]
fn who_holds_packets_back_is_not_overtaken_by_a_branch() {
    // The copy that waits in front of Mark(2) is the only one that Look knows of.
    same_both_ways(
        "Feed(COUNT) -> s :: Split(2) -> f :: Flood(20) -> Mark(1) -> Sink; f[1] -> a :: Mark(2) -> Sink;
         s[1] -> Mark(4) -> Look(3) -> Mark(3) -> a;",
    );
}

#[test]
fn what_comes_back_from_aside_is_not_overtaken() {
    same_both_ways("Feed(COUNT) -> d :: Detour(5) -> Mark(1) -> Sink; d[1] -> Mark(2) -> Sink;");
    same_both_ways("Feed(COUNT) -> d :: Detour(5) -> Sink; d[1] -> Sink;");
}

#[test]
fn who_pulls_from_itself_finds_nothing() {
    for optimise in [false, true] {
        run("Feed(300) -> Mark(1) -> o :: Ouroboros -> Mark(2) -> Sink; o[1] -> [1]o;", optimise);
    }
}

#[test]
fn cycles_are_those_of_the_elements_that_take_them() {
    let text = "Drip(6000) -> idle :: Mark(1) -> Mark(2) -> toil :: Toil(40) -> Sink;";
    // Another process may have the processor for a while.
    let told = (0..4).any(|_| {
        let (_, stats) = run(text, true);
        stats["toil"].cycles > 2 * stats["idle"].cycles
    });
    assert!(told, "one that does little has more than one that does much");
}

/// A configuration in which each element leads to later ones, and some to earlier ones, around a loop.
fn random_configuration(random: &mut fastrand::Rng) -> String {
    let elements = random.usize(2..12);
    let mut text = String::new();
    let mut reached = vec![false; elements + 1];
    let mut edges = String::new();
    for at in 0..elements {
        let n = random.u32(2..30);
        let (class, outputs) = match random.u32(0..10) {
            0 | 1 => {
                let ways = random.usize(1..4);
                (format!("Split({})", ways + random.usize(0..2)), ways)
            }
            2 | 3 => (format!("Flood({n})"), 2),
            4 => (format!("Detour({n})"), 2),
            5 => (format!("Late({n})"), 1),
            6 => (format!("Twice({n})"), 2),
            7 => (format!("Look({n})"), random.usize(1..3)),
            8 => ("Ender".to_owned(), 1),
            _ => (format!("Until({})", random.u32(8..14)), 2),
        };
        text += &format!("e{at} :: Mark({}) -> f{at} :: {class}; ", at + 1);
        for output in 0..outputs {
            let to = match class.starts_with("Until") && output == 0 {
                true => random.usize(0..=at),
                false => random.usize(at + 1..=elements),
            };
            reached[to] = true;
            edges += &format!("f{at}[{output}] -> e{to}; ");
        }
    }
    text += &format!("e{elements} :: Mark(99) -> Sink; {edges}");
    for (at, _) in reached.iter().enumerate().filter(|&(at, reached)| at == 0 || !reached) {
        text += &format!("Feed(COUNT) -> e{at}; ");
    }
    text
}

#[test]
fn random_configurations() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    let rounds = std::env::var("ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(40u64);
    for seed in seed..seed + rounds {
        same_both_ways(&random_configuration(&mut fastrand::Rng::with_seed(seed)));
    }
}

#[test]
fn packet_by_packet_effects_are_in_the_order_of_the_elements() {
    let order = |text: &str, optimise| {
        ENDS.take();
        let mut engine = engine(text, optimise);
        CAME.take();
        engine.settle();
        CAME.take()
    };
    let text = "Feed(20) -> Ender -> Mark(1) -> Clerk -> Ender -> Sink;";
    assert!(order(text, true) == order(text, false), "an element was not called behind its batch");
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let text =
            random_configuration(&mut random).replace("COUNT", "40") + "Feed(1) -> Clerk -> Sink;";
        assert!(order(&text, true) == order(&text, false), "{text}");
    }
}

#[test]
fn what_is_sent_behind_a_batch_comes_behind_it() {
    for row in
        ["Trailer -> Sink", "Mark(1) -> Trailer -> Mark(2) -> Sink", "Trailer -> Late(3) -> Sink"]
    {
        for optimise in [true, false] {
            let (came, _) = run(&format!("Feed(600) -> {row};"), optimise);
            assert!(came.values().all(|numbers| numbers.is_sorted()), "{row}");
            assert!(came.values().map(Vec::len).sum::<usize>() > 1800);
        }
    }
}

#[test]
fn more_outputs_and_steps_than_a_word_has_bits() {
    let ways: String = (1..150).map(|way| format!("s[{way}] -> Mark({way}) -> j; ")).collect();
    same_both_ways(&format!("Feed(COUNT) -> s :: Split(152) -> j :: Mark(200) -> Sink; {ways}"));
    let row = "Late(7) -> ".repeat(300);
    same_both_ways(&format!(
        "Feed(COUNT) -> s :: Split(2) -> {row} Mark(1) -> t :: Twice(5) -> Sink;
         s[1] -> Mark(2) -> t; t[1] -> Mark(3) -> Sink;"
    ));
}
