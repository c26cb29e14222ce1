//! Graphs that run as programs, beside the same graphs run element by element.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::clock::Clock;
use crate::element::{Class, ClassInfo, Element, Failed, Init, Refused, Setup};
use crate::engine::{Engine, Moment, Task};
use crate::memory::{Packet, View};
use crate::router::{Options, check, initialize};
use crate::stats::ElementStats;
use crate::{PerPacket, Reason, Registry, Way};

thread_local! {
    /// What came to the sinks: which, the trail, the number.
    static CAME: RefCell<Vec<(String, Vec<u8>, u32)>> = const { RefCell::new(Vec::new()) };
    /// Batches at whose end elements were called, with how many packets these had had until then.
    static ENDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// The packet's number, in its last four bytes.
fn number(data: &[u8]) -> u32 {
    data.last_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// Sends so many packets in each of three rounds.
struct Feed {
    task: Task,
    count: u32,
}

impl Element for Feed {
    const CLASS: Class = Class::new("Feed", "0/1", "h/h");
    /// The rounds, the number of the next packet, and who shares packets.
    type Local = (u32, u32, Vec<Packet>);

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let count = setup.args.mandatory("COUNT");
        setup.args.complete()?;
        Ok(Self { task: setup.task(), count })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (rounds, next, shared): &mut Self::Local) -> bool {
        shared.clear();
        if *rounds == 3 {
            return false;
        }
        *rounds += 1;
        for _ in 0..self.count {
            // Some have no headroom, some are shared, some large.
            let headroom = if *next % 3 == 0 { 0 } else { 100 };
            let tailroom = if *next % 97 == 5 { 70_000 } else { 0 };
            let mut packet = Packet::with_room(headroom, 4, tailroom).unwrap();
            packet.data_mut().copy_from_slice(&next.to_be_bytes());
            if *next % 5 == 1 {
                shared.extend(packet.share());
            }
            *next += 1;
            cx.created(1);
            cx.push(0, packet);
        }
        self.task.schedule();
        true
    }
}

/// Notes what comes.
struct Sink(String);

impl Element for Sink {
    const CLASS: Class = Class::new("Sink", "1/0", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(setup.name().to_owned()))
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        CAME.with_borrow_mut(|came| {
            for packet in batch.iter() {
                let (trail, _) = packet.data().split_last_chunk::<4>().unwrap();
                came.push((self.0.clone(), trail.to_vec(), number(packet.data())));
            }
        });
        cx.consumed(batch.len());
        batch.clear();
    }
}

macro_rules! treats {
    ($name:ident, $code:literal, |$own:ident, $packet:ident, $at:ident| $treat:expr, { $($rest:item)* }) => {
        struct $name(u32);

        impl Element for $name {
            const CLASS: Class = Class::new(stringify!($name), $code, "h/h");
            type Local = u32;

            fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
                let n = setup.args.mandatory("N");
                setup.args.complete()?;
                Ok(Self(n))
            }
        }

        impl PerPacket for $name {
            fn treat(&self, _: &mut u32, $packet: &mut View, $at: &mut Moment) -> Way {
                let $own = self;
                $treat
            }
            $($rest)*
        }
    };
}

// Adds to the trail.
treats!(
    Mark,
    "1/-",
    |own, packet, _at| {
        packet.push_front(&[own.0 as u8]);
        Way::ON
    },
    {
        const PREPENDS: usize = 1;
    }
);

// Adds more to the trail than it says.
treats!(
    Marks,
    "1/1",
    |own, packet, _at| {
        packet.push_front(&[own.0 as u8; 3]);
        packet.push_front(&[own.0 as u8; 2]);
        Way::ON
    },
    {
        const PREPENDS: usize = 2;
    }
);

// Distributes packets over N ways, some of which may not be connected.
treats!(
    Split,
    "1/-",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::output_or_drop(0, Reason::Filtered),
            n => Way::output(n as u16),
        }
    },
    {
        const ROUTES: bool = true;
    }
);

// Goes round until the trail is long enough; every Nth packet is treated aside before.
treats!(
    Until,
    "1/2",
    |own, packet, _at| {
        let long = packet.len() >= own.0 as usize + number(packet.data()) as usize % 3;
        Way::output(u16::from(long))
    },
    {
        const ROUTES: bool = true;
    }
);

// Sends every Nth packet aside, which comes back to where it would have gone.
treats!(
    Late,
    "1/1",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(7),
            _ => Way::ON,
        }
    },
    {
        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, way: Way) -> Option<Packet> {
            assert_eq!(way.note(), Some(7));
            cx.push(0, packet);
            None
        }
    }
);

// Sends a second packet of every Nth ahead, by output 1; goes on with the first.
treats!(
    Twice,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(0),
            _ => Way::ON,
        }
    },
    {
        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, _: Way) -> Option<Packet> {
            let second = packet.copy()?;
            cx.created(1);
            cx.push(1, second);
            Some(packet)
        }
    }
);

// Looks more closely at every Nth packet, and drops every fourth of these.
treats!(
    Look,
    "1/1-2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::MORE,
            _ => Way::ON,
        }
    },
    {
        fn treat_more(&self, _: &mut u32, packet: &mut View, _: &mut Moment) -> Way {
            packet.push_front(b"m");
            match number(packet.data()) / self.0 % 4 {
                0 => Way::drop(Reason::Truncated),
                1 => Way::output_or_drop(1, Reason::Filtered),
                _ => Way::ON,
            }
        }
    }
);

// Counts packets until the end of a batch.
struct Ender;

impl Element for Ender {
    const CLASS: Class = Class::new("Ender", "1/1", "h/h");
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Ender {
    const ENDS: bool = true;

    fn treat(&self, count: &mut u32, _: &mut View, _: &mut Moment) -> Way {
        *count += 1;
        Way::ON
    }

    fn end(&self, _: &mut Context, count: &mut u32) {
        ENDS.with_borrow_mut(|ends| ends.push(std::mem::take(count)));
    }
}

// Sends packets by output 1; every Nth is treated aside, and goes by output 0 while a copy goes by output 1.
treats!(
    Flood,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 + 2 == own.0 {
            true => Way::aside(0),
            false => Way::output(1),
        }
    },
    {
        const ROUTES: bool = true;

        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, _: Way) -> Option<Packet> {
            let second = packet.copy()?;
            cx.created(1);
            cx.push(1, second);
            cx.push(0, packet);
            None
        }
    }
);

// Chooses among two ways; every Nth packet is treated aside first, and goes by the first one.
treats!(
    Detour,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(u8::MAX),
            n => Way::output(n as u16 % 2),
        }
    },
    {
        const ROUTES: bool = true;

        fn aside(&self, _: &mut Context, _: &mut u32, packet: Packet, way: Way) -> Option<Packet> {
            assert_eq!(way.note(), Some(u8::MAX));
            Some(packet)
        }
    }
);

/// Pulls from itself, around a loop, when it treats a packet aside and behind each batch. Counts in `0` how often
/// it found itself running.
struct Ouroboros;

impl Element for Ouroboros {
    const CLASS: Class = Class::new("Ouroboros", "2/2", "hl/hl");
    type Local = bool;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn pull(&self, _: &mut Context, runs: &mut bool, _: usize, _: usize, _: &mut Batch) {
        assert!(!*runs, "who keeps this is at work on it");
    }
}

impl Ouroboros {
    fn bite(cx: &mut Context, runs: &mut bool) {
        *runs = true;
        let mut batch = cx.take_batch();
        cx.pull(1, 1, &mut batch);
        cx.give_batch(batch);
        *runs = false;
    }
}

impl PerPacket for Ouroboros {
    const ENDS: bool = true;

    fn treat(&self, _: &mut bool, packet: &mut View, _: &mut Moment) -> Way {
        if number(packet.data()) % 7 == 0 { Way::aside(0) } else { Way::ON }
    }

    fn aside(&self, cx: &mut Context, runs: &mut bool, packet: Packet, _: Way) -> Option<Packet> {
        Self::bite(cx, runs);
        Some(packet)
    }

    fn end(&self, cx: &mut Context, runs: &mut bool) {
        Self::bite(cx, runs);
    }
}

/// Sends a packet with the number of the last one behind each batch.
struct Trailer;

impl Element for Trailer {
    const CLASS: Class = Class::new("Trailer", "1/1", "h/h");
    type Local = Vec<u8>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Trailer {
    const ENDS: bool = true;

    fn treat(&self, last: &mut Vec<u8>, packet: &mut View, _: &mut Moment) -> Way {
        packet.data().clone_into(last);
        Way::ON
    }

    fn end(&self, cx: &mut Context, last: &mut Vec<u8>) {
        if !last.is_empty() {
            cx.created(1);
            cx.push(0, Packet::from_bytes(last).unwrap());
        }
        last.clear();
    }
}

/// Sends one packet in each of so many rounds.
struct Drip {
    task: Task,
    rounds: u32,
}

impl Element for Drip {
    const CLASS: Class = Class::new("Drip", "0/1", "h/h");
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let rounds = setup.args.mandatory("ROUNDS");
        setup.args.complete()?;
        Ok(Self { task: setup.task(), rounds })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, next: &mut u32) -> bool {
        if *next == self.rounds {
            return false;
        }
        let mut packet = Packet::with_room(100, 4, 0).unwrap();
        packet.data_mut().copy_from_slice(&next.to_be_bytes());
        *next += 1;
        cx.created(1);
        cx.push(0, packet);
        self.task.schedule();
        true
    }
}

// Takes so many microseconds for a packet.
treats!(
    Toil,
    "1/1",
    |own, _packet, _at| {
        let end = std::time::Instant::now() + std::time::Duration::from_micros(own.0.into());
        while std::time::Instant::now() < end {}
        Way::ON
    },
    {}
);

/// Notes how many batches have ended at an Ender when a packet comes; its class has packets go all their way one by one.
struct Clerk;

impl Element for Clerk {
    const CLASS: Class = Class::new("Clerk", "1/1", "h/h").ordered();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Clerk {
    fn treat(&self, _: &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::aside(0)
    }

    fn aside(&self, _: &mut Context, _: &mut (), packet: Packet, _: Way) -> Option<Packet> {
        let ends = ENDS.with_borrow(Vec::len) as u32;
        CAME.with_borrow_mut(|came| came.push(("Clerk".to_owned(), Vec::new(), ends)));
        Some(packet)
    }
}

const CLASSES: &[ClassInfo] = &[
    crate::class_info!(Feed, ""),
    crate::class_info!(Sink, ""),
    crate::class_info!(Mark, ""),
    crate::class_info!(Marks, ""),
    crate::class_info!(Split, ""),
    crate::class_info!(Until, ""),
    crate::class_info!(Late, ""),
    crate::class_info!(Twice, ""),
    crate::class_info!(Look, ""),
    crate::class_info!(Ender, ""),
    crate::class_info!(Flood, ""),
    crate::class_info!(Detour, ""),
    crate::class_info!(Ouroboros, ""),
    crate::class_info!(Drip, ""),
    crate::class_info!(Clerk, ""),
    crate::class_info!(Trailer, ""),
    crate::class_info!(Toil, ""),
];

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

/// What is seen of a run: for each sink and trail the packets in order, and what the elements counted.
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
