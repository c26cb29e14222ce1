//! A test rig for one element: packets in, packets out, virtual time, no threads.
//!
//! ```
//! # use millrace_core::testing::Rig;
//! # use millrace_core::*;
//! # struct Skip; impl Element for Skip {
//! #     const CLASS: Class = Class::new("Skip", "1/1", "a/a");
//! #     type Local = ();
//! #     fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> { setup.args.complete()?; Ok(Skip) }
//! # }
//! # impl PerPacket for Skip {
//! #     fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
//! #         if packet.strip(1) { Way::ON } else { Way::drop(Reason::Truncated) }
//! #     }
//! # }
//! # const SKIP: ClassInfo = class_info!(Skip, "");
//! # let mut rig = Rig::with_class(&SKIP, "Skip", 1, 1).unwrap();
//! let out = rig.push(0, &[&b"abc"[..], b""]);
//! assert_eq!(out[0], [b"bc"]);
//! assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use millrace_lang::{ConfigText, Connection, Diagnostic, ElementDecl, Graph, Span};

use crate::Lock;
use crate::clock::Clock;
use crate::element::{Class, Element, Failed, HandlerError, Init, Refused, Setup};
use crate::engine::Context;
use crate::memory::{Batch, Packet};
use crate::phase::Phase;
use crate::registry::{ClassInfo, Registry};
use crate::router::{Part, Router};
use crate::run::{Engine, Options, Outcome, check, initialize};
use crate::schedule::Task;
use crate::services::Services;
use crate::stats::ElementStats;
use crate::time::Timestamp;

/// What must be gone when a router has ended: the router itself and all of its elements. An element that holds itself,
/// by way of another one, would stay in memory for good, with its tables and threads.
pub struct Remains {
    router: Weak<Router>,
    elements: Vec<(String, Weak<dyn Part>)>,
}

impl Remains {
    /// Takes note of a router that is still there.
    pub fn of(router: &Arc<Router>) -> Self {
        let members = router.members().iter();
        let elements = members.map(|member| (member.name.clone(), Arc::downgrade(&member.element)));
        Self { router: Arc::downgrade(router), elements: elements.collect() }
    }

    /// The names of the elements that are still in memory, and `router` if it is.
    pub fn names(&self) -> Vec<String> {
        let elements = self.elements.iter().filter(|(_, element)| element.strong_count() > 0);
        let router = (self.router.strong_count() > 0).then(|| "router".to_owned());
        elements.map(|(name, _)| name.clone()).chain(router).collect()
    }
}

/// One element between a feed for each input and a catch for each output.
///
/// The feeds push to all inputs and the element pushes to all outputs, unless the class declares a port as
/// pull: then the catch pulls, or the element pulls from the feed.
pub struct Rig {
    engine: Engine,
    element: usize,
    feeds: Vec<Arc<Feed>>,
    catches: Vec<Arc<Catch>>,
}

impl Rig {
    /// Sets up a registered element, `Class(arguments)`, with the given numbers of inputs and outputs.
    ///
    /// # Errors
    /// The configuration is wrong, or the element cannot be initialised.
    pub fn new(element: &str, inputs: usize, outputs: usize) -> Result<Self, Vec<Diagnostic>> {
        Self::with(Registry::linked(), element, inputs, outputs, Services::default())
    }

    /// Like [`new`](Self::new), with a class that need not be registered.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn with_class(
        class: &'static ClassInfo,
        element: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut registry = Registry::linked();
        registry.add(class);
        Self::with(registry, element, inputs, outputs, Services::default())
    }

    /// Like [`new`](Self::new), with your own classes and services.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn with(
        mut registry: Registry,
        element: &str,
        inputs: usize,
        outputs: usize,
        services: Services,
    ) -> Result<Self, Vec<Diagnostic>> {
        registry.add(FEED);
        registry.add(CATCH);
        let graph = graph(element, inputs, outputs);
        let options = Options { clock: Clock::virtual_(), services, ..Options::default() };
        let (router, diagnostics) = check(&graph, &registry, options);
        let engine = initialize(router.ok_or(diagnostics)?, 1)?;
        let router = engine.router().clone();
        let feeds = (0..inputs).filter_map(|n| router.element(router.find(&format!("feed{n}"))?));
        let catches =
            (0..outputs).filter_map(|n| router.element(router.find(&format!("catch{n}"))?));
        Ok(Self {
            element: router.find("x").unwrap_or(0),
            feeds: feeds.collect(),
            catches: catches.collect(),
            engine,
        })
    }

    /// Sends packets with these bytes to input `port` as one burst; returns the packets that came out, by
    /// output.
    pub fn push(&mut self, port: usize, packets: &[impl AsRef<[u8]>]) -> Vec<Vec<Vec<u8>>> {
        let packets = packets.iter().filter_map(|bytes| Packet::from_bytes(bytes.as_ref()));
        let out = self.push_packets(port, packets.collect());
        out.into_iter()
            .map(|port| port.iter().map(|packet| packet.data().to_vec()).collect())
            .collect()
    }

    /// Sends packets to input `port` as one burst; returns the packets that came out, by output.
    pub fn push_packets(&mut self, port: usize, packets: Vec<Packet>) -> Vec<Vec<Packet>> {
        if let Some(feed) = self.feeds.get(port) {
            feed.give(packets);
        }
        self.engine.settle();
        self.take()
    }

    /// Sends packets to all inputs, one burst each, before any is processed; returns the packets that came
    /// out, by output.
    pub fn push_to_all(&mut self, packets: Vec<Vec<Packet>>) -> Vec<Vec<Packet>> {
        for (feed, packets) in self.feeds.iter().zip(packets) {
            feed.give(packets);
        }
        self.engine.settle();
        self.take()
    }

    /// Sets how many packets the catch of a pull output pulls at a time.
    pub fn pull_at_most(&mut self, burst: usize) {
        self.catches.iter().for_each(|catch| catch.burst.store(burst, Relaxed));
    }

    /// Advances virtual time and runs timers; returns the packets that came out, by output.
    pub fn pass(&mut self, time: Timestamp) -> Vec<Vec<Packet>> {
        let until = self.router().clock().now() + time;
        self.engine.run_until(until);
        self.take()
    }

    /// Reads a handler of the element.
    ///
    /// # Errors
    /// See [`Router::read_of`].
    pub fn read(&self, handler: &str) -> Result<String, HandlerError> {
        self.read_with(handler, "")
    }

    /// Reads a handler of the element with a parameter.
    ///
    /// # Errors
    /// See [`Router::read_of`].
    pub fn read_with(&self, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        self.router()
            .read_of(self.element, handler, parameter.as_bytes())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes a handler of the element, and runs everything that this triggers.
    ///
    /// # Errors
    /// See [`Router::write_of`].
    pub fn write(&mut self, handler: &str, text: &str) -> Result<(), HandlerError> {
        self.router().write_of(self.element, handler, text.as_bytes())?;
        self.engine.settle();
        Ok(())
    }

    /// Stops the router in an orderly way: elements finish their work in flight, flush and clean up.
    pub fn stop(self) -> Outcome {
        self.router().enter(Phase::Draining);
        self.engine.run()
    }

    /// The element's counts.
    pub fn stats(&self) -> ElementStats {
        self.router().stats_of(self.element)
    }

    /// The router around the element.
    pub fn router(&self) -> &Arc<Router> {
        self.engine.router()
    }

    fn take(&self) -> Vec<Vec<Packet>> {
        self.catches.iter().map(|catch| catch.take()).collect()
    }
}

fn graph(element: &str, inputs: usize, outputs: usize) -> Graph {
    let (class, config) = element.split_once('(').unwrap_or((element, ")"));
    let config = config.strip_suffix(')').unwrap_or(config);
    let mut graph = Graph::default();
    graph.elements.push(declare("x", class.trim(), config));
    for port in 0..inputs {
        graph.elements.push(declare(&format!("feed{port}"), "TestFeed", ""));
        graph.connections.push(connect((graph.elements.len() - 1, 0), (0, port)));
    }
    for port in 0..outputs {
        graph.elements.push(declare(&format!("catch{port}"), "TestCatch", ""));
        graph.connections.push(connect((0, port), (graph.elements.len() - 1, 0)));
    }
    graph
}

fn declare(name: &str, class: &str, config: &str) -> ElementDecl {
    ElementDecl {
        name: name.to_owned(),
        class: class.to_owned(),
        config: ConfigText { text: config.to_owned(), span: Span::NOWHERE, verbatim: false },
        span: Span::NOWHERE,
        class_span: Span::NOWHERE,
        landmark: "test".to_owned(),
    }
}

fn connect(from: (usize, usize), to: (usize, usize)) -> Connection {
    Connection { from, to, span: Span::NOWHERE }
}

/// The class `TestFeed`, for a registry of tests: [`Feed`].
pub const FEED: &ClassInfo = &crate::class_info!(Feed, "");
/// The class `TestCatch`, for a registry of tests: [`Catch`].
pub const CATCH: &ClassInfo = &crate::class_info!(Catch, "");

/// Outputs the packets that it was given: pushes them, or provides them when pulled. They count as created when they
/// leave it.
pub struct Feed {
    packets: Lock<VecDeque<Packet>>,
    task: Task,
}

impl Feed {
    /// Gives it packets, which it outputs in its next round.
    pub fn give(&self, packets: Vec<Packet>) {
        self.packets.lock().extend(packets);
        self.task.schedule();
    }

    fn fill(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        let mut packets = self.packets.lock();
        while batch.len() < max
            && let Some(packet) = packets.pop_front()
        {
            cx.created(1);
            if let Err(packet) = batch.push(packet) {
                packets.push_front(packet);
                return;
            }
        }
    }
}

impl Element for Feed {
    const CLASS: Class = Class::new("TestFeed", "0/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { packets: Lock::default(), task: setup.task() })
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        self.fill(cx, max, batch);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !cx.is_connected(0) {
            // The output is pulled.
            self.task.unschedule();
            return false;
        }
        let mut batch = cx.take_batch();
        self.fill(cx, Batch::CAPACITY, &mut batch);
        let n = batch.len();
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        if n == 0 {
            self.task.unschedule();
        }
        n > 0
    }
}

/// Keeps the packets that arrive, or that it can pull.
pub struct Catch {
    packets: Lock<Vec<Packet>>,
    task: Task,
    /// How many packets it pulls at a time.
    burst: AtomicUsize,
}

impl Catch {
    /// The packets that it has, in the order in which they came.
    pub fn take(&self) -> Vec<Packet> {
        std::mem::take(&mut *self.packets.lock())
    }
}

impl Element for Catch {
    const CLASS: Class = Class::new("TestCatch", "1/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { packets: Lock::default(), task: setup.task(), burst: Batch::CAPACITY.into() })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        cx.consumed(batch.len());
        self.packets.lock().extend(batch.drain());
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let mut batch = cx.take_batch();
        let n = cx.pull(0, self.burst.load(Relaxed), &mut batch);
        cx.consumed(n);
        self.packets.lock().extend(batch.drain());
        cx.give_batch(batch);
        n > 0
    }
}
