//! What the engine gives to elements that take packets through a part of the graph themselves: a look
//! at the configuration, tasks wherever packets come, books for the elements in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::clock::Clock;
use millrace_core::element::Receiver;
use millrace_core::run::Options;
use millrace_core::stats::MAX_THREADS;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Inspection, Lock, Phase, Reason, Router,
    Setup, register,
};
use millrace_lang::Diagnostic;

use router::engine;

/// Packets between `Gather` and `Release`, by thread, and the tasks that release them.
struct Store {
    lanes: Vec<Lock<Vec<Batch>>>,
    tasks: Lock<Receiver>,
    between: Lock<Vec<usize>>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            lanes: (0..MAX_THREADS).map(|_| Lock::default()).collect(),
            tasks: Lock::default(),
            between: Lock::default(),
        }
    }
}

/// Takes packets out of the graph, up to the next `Release`.
struct Gather(Arc<Store>);
register!(Gather, "sections.rs");

impl Element for Gather {
    const CLASS: Class = Class::new("Gather", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(setup.shared()))
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        let mut at = inspection.id();
        while let Some((_, (next, _), span)) = inspection.leaving(at).next() {
            at = next;
            match inspection.class_of(at).map_or("", |class| class.name) {
                "Release" => return,
                "Between" => self.0.between.lock().push(at),
                class => {
                    let message = format!("{class} is in the wrong place");
                    let finding = Diagnostic::error(inspection.span_of(at), message);
                    return inspection.report(finding.note(span, "packets come this way"));
                }
            }
        }
        let here = inspection.span_of(inspection.id());
        inspection.report(Diagnostic::warning(here, "no Release after it"));
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        let spare = cx.take_batch();
        let batch = std::mem::replace(batch, spare);
        self.0.lanes[cx.thread()].lock().push(batch);
        self.0.tasks.lock().task_on(cx.thread()).unwrap().schedule();
    }

    fn held(&self) -> usize {
        let len = |lane: &Lock<Vec<Batch>>| lane.lock().iter().map(Batch::len).sum::<usize>();
        self.0.lanes.iter().map(len).sum()
    }
}

/// Stands between them; every packet whose number is odd is dropped there.
struct Between;
register!(Between, "sections.rs");

impl Element for Between {
    const CLASS: Class = Class::new("Between", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

/// Gives packets back to the graph.
struct Release(Arc<Store>, Receiver);
register!(Release, "sections.rs");

impl Element for Release {
    const CLASS: Class = Class::new("Release", "1/1", "h/h");
    type Local = u64;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        let store: Arc<Store> = setup.shared();
        let receiver = setup.tasks_where_reached();
        *store.tasks.lock() = receiver.clone();
        Ok(Self(store, receiver))
    }

    fn run_task(&self, cx: &mut Context, count: &mut u64) -> bool {
        let slot = self.1.slot(cx.index());
        assert_eq!(self.1.tasks()[slot].home(), cx.thread());
        let batches = std::mem::take(&mut *self.0.lanes[cx.thread()].lock());
        let worked = !batches.is_empty();
        for mut batch in batches {
            let n = batch.len();
            let router = cx.router().clone();
            cx.passed(router.find("gather").unwrap(), 0, n);
            batch.map_filter(|packet| {
                *count += 1;
                (*count % 2 == 1).then_some(packet)
            });
            for &id in self.0.between.lock().iter() {
                cx.passed(id, n, batch.len());
                cx.dropped_at(id, n - batch.len(), Reason::Filtered);
            }
            cx.passed(cx.element(), batch.len(), 0);
            cx.push_batch(0, &mut batch);
        }
        self.1.tasks()[slot].rest();
        worked
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("tasks", |release, _| release.1.tasks().len());
    }
}

fn virtual_time(threads: usize) -> Options {
    Options { threads, clock: Clock::virtual_(), ..Options::default() }
}

fn count(router: &Router, name: &str) -> String {
    String::from_utf8(router.read(&format!("{name}.count"), b"").unwrap()).unwrap()
}

const TWO_THREADS: &str = "
    a :: InfiniteSource(LIMIT 1000, BURST 7) -> gather :: Gather -> between :: Between
        -> release :: Release -> c :: Counter -> Discard;
    b :: InfiniteSource(LIMIT 500, BURST 5) -> gather;
    other :: InfiniteSource(LIMIT 10) -> Discard;
    StaticThreadSched(a 0, b 2, other 1);
";

#[test]
fn an_element_gets_a_task_on_each_thread_that_reaches_it() {
    let mut engine = engine(TWO_THREADS, virtual_time(4)).unwrap();
    let router = engine.router().clone();
    let release = router.find("release").unwrap();
    let own = router.plan().running().filter(|task| task.element == release);
    assert_eq!(own.map(|task| (task.index, task.thread)).collect::<Vec<_>>(), [(0, 0), (1, 2)]);
    assert_eq!(router.plan().threads_of(release).collect::<Vec<_>>(), [0, 2]);
    engine.settle();
    assert_eq!(count(&router, "c"), "750");
}

#[test]
fn every_element_of_a_section_accounts_for_its_packets() {
    let mut engine = engine(TWO_THREADS, virtual_time(4)).unwrap();
    engine.settle();
    let router = engine.router();
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", element.name);
    }
    let between = router.stats_of(router.find("between").unwrap());
    assert_eq!((between.received, between.sent), (1500, 750));
    assert_eq!(between.drops, [(Reason::Filtered, 750)]);
    assert!(between.batches > 100);
}

#[test]
fn its_tasks_stay_while_others_move() {
    let config =
        TWO_THREADS.replace("StaticThreadSched(a 0, b 2, other 1)", "BalancedThreadSched(1)");
    let engine = engine(&config, Options { threads: 2, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    let release = router.find("release").unwrap();
    let tasks = router.tasks().zip(&router.plan().tasks);
    let own: Vec<_> = tasks.filter(|(_, planned)| planned.element == release).collect();
    assert_eq!(own.len(), 2);
    for (task, _) in own {
        let why = router.move_task(task, 0).unwrap_err();
        assert!(why.contains("on every thread on which packets arrive"), "{why}");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            let all = || router.stats_of(release).received == router.stats_of(release).sent;
            let left = || count(&router, "c").parse::<u64>().unwrap();
            // A thread that treats an odd number of packets keeps one more than half of them.
            while !(left() >= 750 && all()) && start.elapsed() < Duration::from_secs(120) {
                std::thread::yield_now();
            }
            router.enter(Phase::Halted);
        });
        engine.run();
    });
    assert!(["750", "751"].contains(&&*count(&router, "c")));
}

#[test]
fn a_pin_of_such_an_element_is_told_to_have_no_effect() {
    let config = TWO_THREADS.replace("other 1", "other 1, release 3");
    let engine = engine(&config, virtual_time(4)).unwrap();
    let notes = &engine.router().plan().notes;
    assert!(notes.iter().any(|note| note.contains("‘release’")), "{notes:?}");
}

#[test]
fn an_element_that_nothing_reaches_has_no_task() {
    let engine = engine("Idle -> Gather -> r :: Release -> Discard;", virtual_time(2)).unwrap();
    assert_eq!(engine.router().read("r.tasks", b"").unwrap(), b"0");
}

#[test]
fn findings_about_the_graph_point_anywhere() {
    let text = "Idle -> Gather -> Between\n  -> w :: Strip(1) -> Discard;";
    let (router, found) = router::check_text(text);
    assert!(router.is_none(), "an error, no router");
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding.message, "Strip is in the wrong place");
    let place = |span: millrace_lang::Span| &text[span.start as usize..span.end as usize];
    assert_eq!(place(finding.span.unwrap()), "w");
    assert_eq!(place(finding.notes[0].span.unwrap()), "w :: Strip(1)");

    let (router, found) = router::check_text("Idle -> Gather -> Between -> Release -> Discard;");
    assert!(router.is_some() && found.is_empty(), "{found:?}");
}
