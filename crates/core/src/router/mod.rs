//! A configured router: its elements, their handlers, its plan.

mod build;
mod control;
mod draft;
mod path;
mod plan;
mod ports;
mod processing;
mod signals;
mod swap;
mod wiring;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, MutexGuard};

use millrace_lang::{Diagnostic, Span, ascii_quotes};

pub use build::{FEATURES, Options, check, initialize, initialize_beside};
pub use control::ElementInfo;
pub(crate) use draft::{Draft, Place};
pub(crate) use path::{Path, nearest};
pub use plan::{Plan, PlannedReceiver, PlannedTask, PlannedTransmitter, Seat};
pub use signals::Signals;
pub(crate) use swap::Successor;
pub use swap::Swapped;

use crate::Lock;
use crate::args::{ElementLookup, Scope};
use crate::clock::Clock;
use crate::element::node::{AnyElement, Node};
use crate::element::{ClassInfo, Handler, PortKind};
use crate::engine::{RestStats, Task, Waker};
use crate::names::NameTable;
use crate::services::{DeviceBook, Services};
use crate::stats::NodeStats;

/// A router that has been checked and configured. It does not change any more: everything that changes is in
/// its elements and in its threads.
pub struct Router {
    elements: Vec<Member>,
    by_name: HashMap<String, usize>,
    /// The graph.
    connections: Vec<Link>,
    /// The configuration as it was written, and the flat one.
    written: String,
    flat: String,
    requirements: Vec<String>,
    names: NameTable,
    services: Services,
    devices: Option<Arc<DeviceBook>>,
    clock: Clock,
    plan: Plan,
    /// What the elements requested while they were configured.
    draft: Draft,
    wakers: Arc<[Arc<Waker>]>,
    stats: Vec<Arc<[NodeStats]>>,
    stop: Stop,
    complaints: Lock<Vec<String>>,
    /// Warnings from the initialisation.
    findings: Lock<Vec<Diagnostic>>,
    random: Lock<fastrand::Rng>,
    signals: Signals,
    /// Whether each packet goes its whole way before the next one.
    goes_singly: AtomicBool,
    /// The router that this one replaces, until it has done so.
    predecessor: Lock<Option<Arc<Router>>>,
    /// The router that will run in place of this one.
    successor: Lock<Option<Successor>>,
}

/// Whether the locale's characters are UTF-8: the first of these variables that is set counts, locale(7).
fn speaks_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os);
    let first = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let name = first.to_string_lossy().to_ascii_lowercase();
    name.ends_with("utf-8") || name.ends_with("utf8")
}

/// A connection: the output (element, port) that packets leave by, the input that they enter.
pub type Link = ((usize, usize), (usize, usize));

/// One element of a router.
pub(crate) struct Member {
    name: String,
    pub(crate) info: &'static ClassInfo,
    config: String,
    landmark: String,
    pub(crate) span: Span,
    element: Arc<dyn AnyElement>,
    handlers: Vec<Handler>,
    pub(crate) inputs: Vec<PortKind>,
    pub(crate) outputs: Vec<PortKind>,
}

impl Member {
    fn class(&self) -> &'static str {
        self.info.class.name
    }

    /// Whether packets can pass it.
    fn has_ports(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty()
    }

    /// One thread's instance.
    fn instantiate(&self) -> Box<dyn Node> {
        let element = self.element.clone();
        let per_packet = self.info.steps.and_then(|steps| (steps.instantiate)(element.clone()));
        per_packet.unwrap_or_else(|| element.instantiate())
    }

    fn handler(&self, name: &str) -> Option<&Handler> {
        self.handlers.iter().find(|own| own.name == name)
    }
}

#[derive(Default)]
struct Stop {
    requests: AtomicUsize,
    /// [`RUNNING`], and then one of the others.
    phase: AtomicU8,
}

const RUNNING: u8 = 0;
/// The threads end their round, and then elements finish their packets in flight.
const STOPPING: u8 = 1;
/// The threads end their round, and nothing else happens.
const HALTED: u8 = 2;

/// A number of requests to stop that no driver survives.
const FINAL: usize = usize::MAX / 2;

impl Router {
    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The services that the program provided.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The names that AddressInfo defines.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Threads and what runs on them.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The sleep statistics of thread `thread`.
    pub fn rest_of(&self, thread: usize) -> RestStats {
        self.wakers.get(thread).map(|waker| waker.rest()).unwrap_or_default()
    }

    /// The tasks, in the order of [`Plan::tasks`].
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.draft.tasks.iter().map(|drafted| &drafted.task)
    }

    /// Whether `thread` may run a task: elements have state only on the threads of their thread vectors.
    pub(crate) fn may_move(&self, task: &Task, thread: usize) -> Result<(), String> {
        let plan = &self.plan;
        if thread >= plan.threads {
            return Err(format!("there is no thread {thread}, but 0 to {}", plan.threads - 1));
        }
        let same = |one: &&PlannedTask| (one.element, one.index) == (task.element(), task.index());
        let planned = plan.tasks.iter().find(same).ok_or("the task is no part of the plan")?;
        if let Some((device, _)) = &planned.receives {
            return Err(format!(
                "it receives from {device}, whose queues are planned: use THREADOFFSET"
            ));
        }
        if self.draft.attendances.iter().any(|one| one.0 == task.element()) {
            return Err("it runs on each thread that packets come on".to_owned());
        }
        if task.stays() {
            return Err("threads wait for it: use StaticThreadSched".to_owned());
        }
        if !planned.runs {
            return Err("packets are pushed to the element: it has nothing to do".to_owned());
        }
        match plan.out_of_reach(task.element(), thread) {
            None => Ok(()),
            Some(element) => Err(format!(
                "thread {thread} is not planned to reach ‘{}’: use StaticThreadSched, or let tasks move \
                 with BalancedThreadSched",
                self.name_of(element)
            )),
        }
    }

    /// A thread's instance of element `id`.
    pub(crate) fn instance_of(&self, id: usize) -> Option<Box<dyn Node>> {
        Some(self.elements.get(id)?.instantiate())
    }

    pub(crate) fn member(&self, id: usize) -> Option<&Member> {
        self.elements.get(id)
    }

    /// State that elements share with one another, if one of them has asked for it.
    pub fn shared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.draft.shared.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The index of the element with this full name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The element that `name` means for element `from`: the nearest one in the enclosing compound elements,
    /// from the inside out.
    pub fn resolve(&self, from: usize, name: &str) -> Option<usize> {
        self.scope_of(from).find_element(name)
    }

    /// The scope of element `id`, in which names in its arguments are looked up.
    pub fn scope_of(&self, id: usize) -> Scope<'_> {
        let scope = Scope::new(self.name_of(id), &self.names, self);
        match &self.devices {
            Some(devices) => scope.with_devices(&*devices.0),
            None => scope,
        }
    }

    /// The full name of element `id`; empty when there is none.
    pub fn name_of(&self, id: usize) -> &str {
        self.elements.get(id).map_or("", |member| &member.name)
    }

    /// The class of element `id`; empty when there is none.
    pub fn class_of(&self, id: usize) -> &'static str {
        self.elements.get(id).map_or("", Member::class)
    }

    /// Element `id`, if it is of class `E`.
    pub fn element<E: crate::Element>(&self, id: usize) -> Option<Arc<E>> {
        self.elements.get(id)?.element.clone().into_any().downcast().ok()
    }

    /// The kind of an input port.
    pub fn input_kind(&self, id: usize, port: usize) -> Option<PortKind> {
        self.elements.get(id)?.inputs.get(port).copied()
    }

    /// The kind of an output port.
    pub fn output_kind(&self, id: usize, port: usize) -> Option<PortKind> {
        self.elements.get(id)?.outputs.get(port).copied()
    }

    /// Advice from elements for the user: element and text.
    pub fn advice(&self) -> &[(usize, String)] {
        &self.draft.advice
    }

    /// Prints a message to the user while the router runs, on standard error, with the quotation marks of the
    /// locale.
    pub fn chatter(&self, message: &str) {
        use std::io::Write;
        static UTF8: LazyLock<bool> = LazyLock::new(speaks_utf8);
        let message = match message.contains('‘') && !*UTF8 {
            true => Cow::from(ascii_quotes(message)),
            false => Cow::from(message),
        };
        // Where nobody can listen, nothing need be said.
        let _ = writeln!(std::io::stderr(), "{message}");
    }

    /// Random numbers for callers that are not threads of the router (seeded like theirs).
    pub fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.random.lock()
    }

    /// The signals that elements listen to.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Runs the elements that listen to signals that have arrived.
    pub(crate) fn heed_signals(&self) {
        for (signal, elements) in self.signals.take() {
            if elements.is_empty() {
                self.signals.nobody_heard(signal);
            }
            for id in elements {
                if let Err(error) = self.write_of(id, "run", b"") {
                    let message = error.to_string();
                    if !message.is_empty() {
                        self.chatter(&message);
                    }
                }
            }
        }
    }
}

impl ElementLookup for Router {
    fn find(&self, name: &str) -> Option<usize> {
        Router::find(self, name)
    }

    fn names(&self) -> Vec<String> {
        self.elements.iter().map(|member| member.name.clone()).collect()
    }
}

/// Stopping.
impl Router {
    /// Requests a stop, as Click's elements do. An element that drives the router (DriverManager, Script) may
    /// keep it running.
    pub fn request_stop(&self) {
        self.request_stops(1);
    }

    /// Makes this many requests to stop at once.
    pub fn request_stops(&self, times: usize) {
        self.stop.requests.fetch_add(times.min(FINAL / 4), Ordering::SeqCst);
        self.wake();
    }

    /// Requests a stop repeatedly until the router stops (after a signal). An element that drives it can
    /// finish what it does when stopped, but waits for nothing any more.
    pub fn request_final_stop(&self) {
        self.stop.requests.store(FINAL, Ordering::SeqCst);
        self.wake();
    }

    /// Stops the router in an orderly way, whatever drives it: elements [finish](crate::Element::drain) their
    /// packets in flight.
    pub fn stop(&self) {
        self.enter_phase(STOPPING);
    }

    /// Stops the router at once, whatever drives it: packets stay where they are, even if it is
    /// [stopping](Self::stop) already.
    pub fn halt(&self) {
        self.enter_phase(HALTED);
    }

    /// Enters a later phase; there is no way back.
    fn enter_phase(&self, phase: u8) {
        if self.stop.phase.fetch_max(phase, Ordering::SeqCst) == RUNNING {
            self.wakers.iter().for_each(|waker| waker.wake());
        }
    }

    /// Whether the router stops, in either way.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.stop.phase.load(Ordering::Relaxed) != RUNNING
    }

    /// Whether elements must finish their packets in flight.
    pub(crate) fn drains(&self) -> bool {
        self.stop.phase.load(Ordering::Relaxed) == STOPPING
    }

    /// Whether the router stops, or has got its [final request](Self::request_final_stop) to stop: a thread
    /// that waits for something in the middle of its work must give up.
    pub fn is_stopping(&self) -> bool {
        self.is_halted() || self.stop.requests.load(Ordering::Relaxed) > FINAL / 2
    }

    /// Whether a request to stop is pending.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.stop.requests.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take_stop_request(&self) -> bool {
        self.is_asked_to_stop()
            && self
                .stop
                .requests
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
    }

    pub(crate) fn driver(&self) -> Option<usize> {
        self.draft.driver
    }

    /// Makes the first thread check for outside events: requests to stop, signals.
    pub fn wake(&self) {
        if let Some(first) = self.wakers.first() {
            first.wake();
        }
    }

    /// The elements' warnings from their initialisation, for the program to print.
    pub fn take_findings(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.findings.lock())
    }

    /// Stores a message for the end of the run.
    pub fn complain(&self, message: String) {
        self.complaints.lock().push(message);
    }

    /// Cleans up every element, in order; returns the errors.
    pub(crate) fn cleanup(&self) -> Vec<String> {
        for member in &self.elements {
            if let Err(refused) = member.element.cleanup(self) {
                self.complain(format!("{}: {refused}", member.name));
            }
        }
        std::mem::take(&mut self.complaints.lock())
    }
}
