//! A configured router: its elements, their handlers, its plan, what it counts and how far its end has come.
//!
//! Elements and the engine see it; it runs nothing itself ([`run`](crate::run) does) and knows no class.

mod control;
mod counts;
mod global;
mod handler_call;
mod handlers;
mod messages;
mod moves;
mod near;
mod part;
mod path;
mod pause;
mod progress;
mod signals;
mod stop;
mod warnings;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use millrace_lang::{Diagnostic, Span};

pub use control::ElementInfo;
pub use counts::Spent;
pub use global::{GlobalHandler, GlobalHandlers};
pub use handler_call::HandlerCall;
pub use handlers::{ANY_HANDLER, Call, Handler, HandlerError, Handlers, IntoText, Text};
pub use messages::in_locale;
pub use near::or_rather;
pub(crate) use part::Part;
pub(crate) use path::{Path, nearest};
use pause::Pause;
pub use progress::Progress;
pub use signals::Signals;
pub use warnings::{hear, warn_listener};

use crate::Lock;
use crate::args::{ElementLookup, Scope};
use crate::capability::Offers;
use crate::clock::Clock;
use crate::graph::{Class, Link, Links, PortKind};
use crate::names::NameTable;
use crate::needs::Need;
use crate::observe::{Observation, Observations, Observing};
use crate::phase::Phases;
use crate::plan::{Draft, Plan};
use crate::random::Random;
use crate::schedule::{Task, Waker};
use crate::services::{DeviceBook, Services};
use crate::stats::NodeStats;

/// A router that has been checked and configured. It does not change any more: everything that changes is in
/// its elements and in its threads.
pub struct Router {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
    links: Links,
    texts: Texts,
    names: NameTable,
    services: Services,
    devices: Option<Arc<DeviceBook>>,
    clock: Clock,
    plan: Plan,
    /// What the elements requested while they were configured.
    draft: Draft,
    wakers: Arc<[Arc<Waker>]>,
    stats: Vec<Arc<[NodeStats]>>,
    phases: Phases,
    stop_requests: AtomicUsize,
    signals: Signals,
    complaints: Lock<Vec<String>>,
    random: Arc<Random>,
    /// What elements found out to need when they were initialised.
    needs: Lock<Vec<(usize, Need)>>,
    /// Whether each packet is to go all its way before the next one.
    goes_singly: AtomicBool,
    /// Configurations that were written to handlers, by element.
    configs: Lock<HashMap<usize, String>>,
    /// The cycles inside and outside of elements of each thread, when its load was last read.
    loads: Lock<Vec<[u64; 2]>>,
    /// What will run in place of this one; its type is known to `run` alone.
    successor: Lock<Option<Box<dyn Any + Send>>>,
    pause: Pause,
    observations: Arc<Observations>,
    /// How many routers ran before this one.
    generation: AtomicU64,
    /// Handlers that the program adds.
    added: Option<Arc<GlobalHandlers>>,
}

/// What a router is made of.
pub(crate) struct Parts {
    pub(crate) members: Vec<Member>,
    pub(crate) connections: Vec<Link>,
    pub(crate) texts: Texts,
    pub(crate) names: NameTable,
    pub(crate) services: Services,
    pub(crate) clock: Clock,
    pub(crate) plan: Plan,
    pub(crate) draft: Draft,
}

/// Texts that handlers give.
pub(crate) struct Texts {
    /// The configuration as it was written, and the flat one.
    pub(crate) written: String,
    pub(crate) flat: String,
    pub(crate) requirements: Vec<String>,
    /// The names of all classes that there are.
    pub(crate) classes: Vec<&'static str>,
}

/// One element of a router.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) class: &'static Class,
    pub(crate) config: String,
    pub(crate) landmark: String,
    pub(crate) span: Span,
    pub(crate) element: Arc<dyn Part>,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) inputs: Vec<PortKind>,
    pub(crate) outputs: Vec<PortKind>,
}

impl Member {
    /// Whether packets can pass it, and it shows them or their order at present, if its class does.
    fn shows(&self) -> bool {
        (!self.inputs.is_empty() || !self.outputs.is_empty()) && self.element.shows()
    }

    /// Asks the element for what it offers.
    pub(crate) fn offer(&self, offers: &mut Offers<'_>) {
        self.element.clone().offer(offers);
    }

    pub(crate) fn handler(&self, name: &str) -> Option<&Handler> {
        self.handlers.iter().find(|own| own.name == name)
    }
}

impl From<Parts> for Router {
    fn from(parts: Parts) -> Self {
        let Parts { members, connections, texts, names, services, clock, plan, draft } = parts;
        let wakers: Arc<[Arc<Waker>]> = (0..plan.threads).map(|_| Arc::new(Waker::new())).collect();
        let counts = || (0..=members.len()).map(|_| NodeStats::default()).collect();
        Self {
            by_name: members.iter().enumerate().map(|(id, e)| (e.name.clone(), id)).collect(),
            observations: Arc::new(Observations::new(wakers.clone())),
            wakers,
            stats: (0..plan.threads).map(|_| counts()).collect(),
            devices: services.get(),
            added: services.get(),
            members,
            links: Links::new(connections),
            texts,
            names,
            services,
            clock,
            plan,
            draft,
            phases: Phases::default(),
            stop_requests: 0.into(),
            signals: Signals::default(),
            complaints: Lock::default(),
            random: Arc::default(),
            needs: Lock::default(),
            goes_singly: false.into(),
            configs: Lock::default(),
            loads: Lock::default(),
            successor: Lock::default(),
            pause: Pause::default(),
            generation: 0.into(),
        }
    }
}

impl Router {
    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    /// What wakes each thread.
    pub(crate) fn wakers(&self) -> &Arc<[Arc<Waker>]> {
        &self.wakers
    }

    /// The services that the program provided.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// What elements need while the router runs, beside packets: the index of the element, and what it has declared.
    pub fn needs(&self) -> Vec<(usize, Need)> {
        self.draft.needs.iter().chain(self.needs.lock().iter()).cloned().collect()
    }

    pub(crate) fn add_needs(&self, id: usize, needs: impl IntoIterator<Item = Need>) {
        self.needs.lock().extend(needs.into_iter().map(|need| (id, need)));
    }

    /// The names that AddressInfo defines.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Threads and what runs on them.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The tasks, in the order of [`Plan::tasks`].
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.draft.tasks.iter().map(|drafted| &drafted.task)
    }

    /// The connections: (element, output) to (element, input).
    pub fn connections(&self) -> &[Link] {
        self.links.all()
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// The elements whose packets arrive at an element, one for each connection.
    pub fn upstream_of(&self, id: usize) -> impl Iterator<Item = usize> {
        self.links.coming(id).into_iter().map(|at| self.links.all()[at].0.0)
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn member(&self, id: usize) -> Option<&Member> {
        self.members.get(id)
    }

    /// State that elements share with one another, if one of them has asked for it.
    pub fn shared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.draft.shared.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
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
        self.members.get(id).map_or("", |member| &member.name)
    }

    /// The class of element `id`; empty when there is none.
    pub fn class_of(&self, id: usize) -> &'static str {
        self.members.get(id).map_or("", |member| member.class.name)
    }

    /// Element `id`, if it is of class `E`: for a class that looks for itself, as its successor or in a test. What an
    /// element wants of others is [`offered`](Self::offered).
    pub fn element<E: Any + Send + Sync>(&self, id: usize) -> Option<Arc<E>> {
        let element: Arc<dyn Any + Send + Sync> = self.members.get(id)?.element.clone();
        element.downcast().ok()
    }

    /// The kind of an input port.
    pub fn input_kind(&self, id: usize, port: usize) -> Option<PortKind> {
        self.members.get(id)?.inputs.get(port).copied()
    }

    /// The kind of an output port.
    pub fn output_kind(&self, id: usize, port: usize) -> Option<PortKind> {
        self.members.get(id)?.outputs.get(port).copied()
    }

    /// Whether an element shows packets at present.
    pub(crate) fn shows_packets(&self, id: usize) -> bool {
        self.members.get(id).is_some_and(|member| member.class.shows_packets && member.shows())
    }

    pub(crate) fn set_advice(&mut self, advice: Vec<Diagnostic>) {
        self.draft.advice = advice;
    }

    /// Advice for the user: not errors, but perhaps not what they want.
    pub fn advice(&self) -> &[Diagnostic] {
        &self.draft.advice
    }

    /// Random numbers in Click's sequence, for handlers and for what elements decide rarely.
    pub fn random(&self) -> &Arc<Random> {
        &self.random
    }

    /// How many configurations ran before this one, which has replaced the last of them.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// This router runs in place of another one.
    pub(crate) fn follows(&self, old: &Self) {
        self.generation.store(old.generation() + 1, Relaxed);
    }

    /// Sets what will run in place of this router.
    pub(crate) fn set_successor(&self, successor: impl Any + Send) {
        *self.successor.lock() = Some(Box::new(successor));
    }

    pub(crate) fn take_successor<T: Any>(&self) -> Option<Box<T>> {
        self.successor.lock().take()?.downcast().ok()
    }

    /// Watches packets, until the guard is dropped. Each thread begins and ends with that in its next round. The
    /// observation ends with the router, too: one that takes its place is observed by itself.
    pub fn observe(&self, observation: Observation) -> Observing {
        let observing = self.observations.add(observation);
        self.heed_order();
        observing
    }

    pub(crate) fn observations(&self) -> &Arc<Observations> {
        &self.observations
    }

    /// The signals that elements listen to.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }
}

impl ElementLookup for Router {
    fn find(&self, name: &str) -> Option<usize> {
        Router::find(self, name)
    }

    fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    fn offer(&self, id: usize, offers: &mut Offers<'_>) {
        if let Some(member) = self.member(id) {
            member.offer(offers);
        }
    }
}
