//! The end of an orderly stop: elements finish their packets in flight.

use std::time::{Duration, Instant};

use super::drained::{Drained, Passed};
use super::worker::Worker;
use crate::phase::Phase;
use crate::router::Router;

/// The time limit. Packets that go in a loop never end by themselves, and neither do those on a device that
/// does not answer and that its element waits for.
const LONGEST: Duration = Duration::from_secs(10);

/// Makes the elements that these threads reach [finish](crate::Element::drain) their packets in flight, until no
/// thread has any left. Gives up after the time limit, and when the router is to stop at once after all.
pub(super) fn drain(workers: &mut [Worker], router: &Router, all: &Drained) {
    drain_for(LONGEST, workers, router, all);
}

fn drain_for(longest: Duration, workers: &mut [Worker], router: &Router, all: &Drained) {
    let until = Instant::now() + longest;
    let caller = workers.first().map_or(0, |worker| worker.cx.thread());
    // What waits here went in a circle already.
    workers.iter_mut().for_each(Worker::drop_waiting);
    all.enter();
    while router.phase() == Phase::Draining {
        let passed = all.pass(caller, || {
            workers.iter_mut().fold(false, |found, worker| worker.drain(until) | found)
        });
        if passed == Passed::LastOfAll {
            return;
        }
        if Instant::now() >= until {
            if passed == Passed::Fruitful {
                router.complain(format!("packets were still in flight {longest:?} after the stop"));
            }
            return;
        }
        // A device or another thread may need the core.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::clock::Clock;
    use crate::element::{Class, Element, Failed, Init, Refused, Setup};
    use crate::memory::{Batch, Packet};
    use crate::run::{Engine, Options, check, initialize, initialize_beside};
    use crate::schedule::Task;
    use crate::{ClassInfo, Context, Reason, Registry};

    /// Sends a burst of packets in each round of a thread, and requests a stop after ten.
    struct Spring {
        task: Task,
        rounds: AtomicUsize,
    }

    impl Element for Spring {
        const CLASS: Class = Class::new("Spring", "0/1", "h/h");
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            let thread: u32 = setup.args.mandatory("THREAD");
            setup.args.complete()?;
            let name = setup.name().to_owned();
            setup.pin(&name, Some(thread as usize));
            Ok(Self { task: setup.task(), rounds: AtomicUsize::new(0) })
        }

        fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
            self.task.schedule();
            Ok(())
        }

        fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
            for _ in 0..7 {
                cx.created(1);
                cx.push(0, Packet::from_bytes(b"drop").unwrap());
            }
            if self.rounds.fetch_add(1, SeqCst) == 9 {
                cx.router().request_stop();
            }
            true
        }
    }

    /// Holds all packets; at the end it sends them one by one.
    struct Pool(AtomicUsize);

    impl Element for Pool {
        const CLASS: Class = Class::new("Pool", "1/1", "h/h");
        type Local = VecDeque<Packet>;

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            setup.args.complete()?;
            Ok(Self(AtomicUsize::new(0)))
        }

        fn push(&self, _: &mut Context, kept: &mut Self::Local, _: usize, batch: &mut Batch) {
            self.0.fetch_add(batch.len(), SeqCst);
            kept.extend(batch.drain());
        }

        fn drain(&self, cx: &mut Context, kept: &mut Self::Local) -> bool {
            if let Some(packet) = kept.pop_front() {
                self.0.fetch_sub(1, SeqCst);
                cx.push(0, packet);
            }
            !kept.is_empty()
        }

        fn held(&self) -> usize {
            self.0.load(SeqCst)
        }
    }

    /// Consumes packets.
    struct Sea;

    impl Element for Sea {
        const CLASS: Class = Class::new("Sea", "1/0", "h/h");
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            setup.args.complete()?;
            Ok(Self)
        }

        fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
            cx.consumed(batch.len());
            batch.clear();
        }
    }

    /// Forwards packets.
    struct Eddy;

    impl Element for Eddy {
        const CLASS: Class = Class::new("Eddy", "1/1", "h/h");
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            setup.args.complete()?;
            Ok(Self)
        }

        fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
            cx.push_batch(0, batch);
        }
    }

    /// Never lets packets through, and drops those that have waited.
    struct Dam;

    impl Element for Dam {
        const CLASS: Class = Class::new("Dam", "1/0", "h/h");
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            setup.args.complete()?;
            Ok(Self)
        }

        fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
            while !cx.gives_up() {
                std::thread::yield_now();
            }
            cx.drop_batch(batch, Reason::TransmitFull);
        }
    }

    const SPRING: ClassInfo = crate::class_info!(Spring, "");
    const POOL: ClassInfo = crate::class_info!(Pool, "");
    const SEA: ClassInfo = crate::class_info!(Sea, "");
    const EDDY: ClassInfo = crate::class_info!(Eddy, "");
    const DAM: ClassInfo = crate::class_info!(Dam, "");

    fn engine(text: &str, threads: usize, clock: Clock, old: Option<&Arc<Router>>) -> Engine {
        let mut map = millrace_lang::SourceMap::default();
        let source = map.add("drain.click", text);
        let (graph, found) =
            millrace_lang::compile(&mut map, source, &millrace_lang::Options::default());
        assert!(found.is_empty(), "{found:?}");
        let mut registry = Registry::linked();
        registry.add(&SPRING);
        registry.add(&POOL);
        registry.add(&SEA);
        registry.add(&EDDY);
        registry.add(&DAM);
        let options = Options { threads, clock, ..Options::default() };
        let (router, found) = check(&graph, &registry, options);
        assert!(found.is_empty(), "{found:?}");
        match old {
            Some(old) => initialize_beside(router.unwrap(), 1, old).unwrap(),
            None => initialize(router.unwrap(), 1).unwrap(),
        }
    }

    /// The numbers of packets that arrived, that an element still holds, and that were dropped because of the
    /// stop.
    fn account(router: &Router) -> (u64, u64, u64) {
        let mut account = (0, 0, 0);
        for id in 0..router.len() {
            let stats = router.stats_of(id);
            assert!(stats.balanced(), "{}: {stats:?}", router.name_of(id));
            account.0 += stats.created;
            account.1 += stats.held;
            let stopped = stats.drops.iter().filter(|(reason, _)| *reason == Reason::Stopped);
            account.2 += stopped.map(|(_, n)| n).sum::<u64>();
        }
        account
    }

    #[test]
    fn what_is_under_way_leaves_through_whatever_follows() {
        // The pools stand against the packets' way.
        let text =
            "b :: Pool -> Sea; a :: Pool -> b; Spring(0) -> a; Spring(1) -> a; Spring(2) -> b;";
        for clock in [Clock::virtual_(), Clock::real()] {
            let engine = engine(text, 3, clock, None);
            let router = engine.router().clone();
            assert_eq!(engine.run().complaints, Vec::<String>::new());
            let (came, held, stopped) = account(&router);
            assert!(came >= 70);
            assert_eq!((held, stopped), (0, 0));
        }
    }

    #[test]
    fn nothing_is_finished_when_the_router_is_to_end_at_once() {
        let mut engine = engine("Spring(0) -> Pool -> Sea;", 1, Clock::virtual_(), None);
        let router = engine.router().clone();
        engine.settle();
        assert_eq!(router.phase(), Phase::Draining);
        router.enter(Phase::Halted);
        engine.run();
        let (came, held, stopped) = account(&router);
        assert!(came >= 70);
        assert_eq!((held, stopped), (came, 0));
    }

    #[test]
    fn a_router_that_is_replaced_keeps_its_packets_for_the_other_one() {
        let text = "Spring(0) -> Pool -> Sea;";
        let mut old = engine(text, 1, Clock::virtual_(), None);
        let router = old.router().clone();
        old.settle();
        // The other one comes when this one is about to finish them.
        assert_eq!(router.phase(), Phase::Draining);
        let new = engine(text, 1, Clock::virtual_(), Some(&router));
        let after = new.router().clone();
        router.replace(new, |_| ());
        old.run();
        let (came, held, _) = account(&router);
        assert_eq!(held, came);
        let (came, held, _) = account(&after);
        assert!(came >= 70);
        assert_eq!(held, 0, "this one has stopped in good order");
    }

    #[test]
    fn packets_in_a_circle_come_to_an_end() {
        for text in [
            "Spring(0) -> p :: Pool -> p;",
            "Spring(0) -> a :: Pool -> b :: Pool -> a;",
            "Spring(0) -> Pool -> e :: Eddy -> e;",
        ] {
            let mut engine = engine(text, 1, Clock::virtual_(), None);
            let router = engine.router().clone();
            engine.settle();
            drain_for(Duration::from_millis(20), &mut engine.workers, &router, &Drained::new(1));
            router.enter(Phase::Halted);
            let complaints = engine.run().complaints;
            assert_eq!(complaints, ["packets were still in flight 20ms after the stop"]);
            let (came, held, stopped) = account(&router);
            assert_eq!(came, held + stopped);
        }
    }

    #[test]
    fn who_waits_for_room_waits_until_the_end_but_no_longer() {
        for (longest, halts) in [(20, false), (60_000, true)] {
            let text = "Spring(0) -> Pool -> Dam;";
            let mut engine = engine(text, 1, Clock::virtual_(), None);
            let router = engine.router().clone();
            engine.settle();
            let longest = Duration::from_millis(longest);
            let start = Instant::now();
            std::thread::scope(|scope| {
                if halts {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(20));
                        router.enter(Phase::Halted);
                    });
                }
                drain_for(longest, &mut engine.workers, &router, &Drained::new(1));
            });
            assert!(start.elapsed() >= Duration::from_millis(20));
            router.enter(Phase::Halted);
            // It complains when its time is up.
            assert_eq!(engine.run().complaints.is_empty(), halts);
            let (came, held, stopped) = account(&router);
            assert_eq!((held, stopped), (came - 1, 0));
        }
    }
}
