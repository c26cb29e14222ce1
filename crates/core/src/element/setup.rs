//! What an element gets when it is configured and when it is initialised.

use std::any::Any;
use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::{PortKind, Receiver, Receiving, Transmitting};
use crate::args::Args;
use crate::clock::Clock;
use crate::engine::{Notifier, Task, Timer};
use crate::names::NameTable;
use crate::router::{Draft, Path, Place, Router, nearest};
use crate::services::Services;

/// Why an element could not be initialised or cleaned up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The input for configuring an element.
pub struct Setup<'a> {
    /// The arguments in the configuration.
    pub args: Args<'a>,
    pub(crate) id: usize,
    pub(crate) name: &'a str,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) services: &'a Services,
    pub(crate) draft: &'a mut Draft,
    pub(crate) definitions: &'a mut NameTable,
}

impl Setup<'_> {
    /// The element's index.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The element's full name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The number of input ports that the configuration uses.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The number of output ports that the configuration uses.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// A service of the program: devices, standard output.
    pub fn service<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.services.get()
    }

    /// The single `T` of this router, shared by all elements that ask for it. It holds what elements need to
    /// know about each other, such as patterns by name. The first element to ask creates it.
    pub fn shared<T: Any + Default + Send + Sync>(&mut self) -> Arc<T> {
        self.draft.shared()
    }

    /// Gives the element a task, which runs on its home thread when scheduled. The first task has index 0.
    pub fn task(&mut self) -> Task {
        self.draft.add_task(self.id, Place::First)
    }

    /// Gives the element a task that carries its packets to another thread than they come from: the plan puts
    /// it there, unless the configuration pins it. The class must declare that it [crosses
    /// threads](super::Class::crosses_threads).
    pub fn task_away(&mut self) -> Task {
        self.draft.add_task(self.id, Place::Away)
    }

    /// Gives the element a task on each thread, or on `most` of them, starting with `first` (default 0). The
    /// class must declare that it [crosses threads](super::Class::crosses_threads).
    pub fn tasks_on_threads(&mut self, most: Option<usize>, first: Option<usize>) -> Receiver {
        self.draft.add_team(self.id, most, first)
    }

    /// Gives the element a task on each thread whose packets reach it. Packets that arrive on a thread leave
    /// on it: these tasks do not move. An element that nothing reaches gets no task.
    pub fn tasks_where_reached(&mut self) -> Receiver {
        self.draft.add_attendance(self.id)
    }

    /// Gives the element a task for each thread that the plan assigns to receive from a device.
    pub fn receiver(&mut self, wish: Receiving) -> Receiver {
        self.draft.add_receiver(self.id, wish)
    }

    /// Declares to the plan that the element transmits to a device, so that the plan can report the number of
    /// queues.
    pub fn transmits(&mut self, wish: Transmitting) {
        self.draft.transmitters.push((self.id, wish));
    }

    /// Allows every task that does not receive from a device to move to any thread while the router runs
    /// ([`Task::move_to`]): all elements then have state on all threads.
    pub fn let_tasks_move(&mut self) {
        self.draft.movable = true;
    }

    /// Gives the element a task that pulls from input `port`, and is not needed when packets are pushed
    /// there.
    pub fn pull_task(&mut self, port: usize) -> Task {
        self.draft.add_pull_task(self.id, port)
    }

    /// Gives the element a timer, which runs on the element's home thread. The first timer has index 0.
    pub fn timer(&mut self) -> Timer {
        self.draft.add_timer(self.id)
    }

    /// Sets the home thread for the tasks and timers of another element, given by its full name, or of all
    /// elements in a compound element; `None` leaves the choice to the plan (StaticThreadSched).
    pub fn pin(&mut self, element: &str, thread: Option<usize>) {
        self.draft.pins.push((element.to_owned(), thread));
    }

    /// Defines names for the elements that are configured after this one, in this element's compound element
    /// and those inside it (AddressInfo, PortInfo).
    pub fn define(&mut self, names: NameTable) {
        self.definitions.extend(names);
    }

    /// Records advice that `check` prints: not an error, but perhaps not what the user wants.
    pub fn advise(&mut self, advice: impl Into<String>) {
        self.draft.advice.push((self.id, advice.into()));
    }

    /// Makes this element decide what happens when the program is asked to stop. Returns false if another
    /// element already does.
    pub fn drive(&mut self) -> bool {
        *self.draft.driver.get_or_insert(self.id) == self.id
    }

    /// Seeds the router's random numbers (RandomSeed).
    pub fn seed_random(&mut self, seed: u64) {
        self.draft.seed = Some(seed);
    }
}

/// The input for initialising an element.
pub struct Init<'a> {
    pub(crate) id: usize,
    pub(crate) router: &'a Arc<Router>,
    /// The diagnostics so far.
    pub(crate) findings: Vec<Diagnostic>,
}

impl<'a> Init<'a> {
    /// The router, to be stored. An element must store it as a weak reference, or neither is ever freed.
    pub fn shared_router(&self) -> &'a Arc<Router> {
        self.router
    }

    /// The element with this name in the running configuration that this one replaces, whose state it will
    /// [take](super::Element::take_state). If only one of the two can have an address or a device, leave it
    /// to the old one until then.
    pub fn predecessor<E: super::Element>(&self) -> Option<Arc<E>> {
        let old = self.router.predecessor()?;
        old.element(old.find(self.name())?)
    }

    /// The element's index.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The router: elements, handlers, threads.
    pub fn router(&self) -> &'a Router {
        self.router
    }

    /// The element's full name.
    pub fn name(&self) -> &'a str {
        self.router.name_of(self.id)
    }

    /// Records a warning about the element's configuration.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.findings.push(Diagnostic::warning(None, message));
    }

    /// Records a warning about a place outside the configuration, such as a line of a file.
    pub fn warn_at(&mut self, landmark: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Diagnostic::warning(None, message).landmark(landmark));
    }

    /// The reason why the element cannot run, with a place outside the configuration.
    pub fn refuse_at(
        &mut self,
        landmark: impl Into<String>,
        message: impl Into<String>,
    ) -> Refused {
        self.findings.push(Diagnostic::error(None, message).landmark(landmark));
        Refused(String::new())
    }

    /// The router's clock.
    pub fn clock(&self) -> &'a Clock {
        self.router.clock()
    }

    /// A service of the program: devices, standard output.
    pub fn service<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.router.services().get()
    }

    /// The element of class `E` with this full name, or with this name in an enclosing compound element.
    pub fn element<E: super::Element>(&self, name: &str) -> Option<Arc<E>> {
        self.router.element(self.router.resolve(self.id, name)?)
    }

    /// The threads whose packets can reach this element, one bit each.
    pub fn threads(&self) -> u64 {
        self.router.plan().reach[self.id]
    }

    /// Whether packets are pulled through input `port`.
    pub fn is_pull_input(&self, port: usize) -> bool {
        self.router.input_kind(self.id, port) == Some(PortKind::Pull)
    }

    /// Whether packets are pulled through output `port`.
    pub fn is_pull_output(&self, port: usize) -> bool {
        self.router.output_kind(self.id, port) == Some(PortKind::Pull)
    }

    /// Schedules `task` whenever a queue upstream of pull input `port` has packets.
    pub fn listen(&self, port: usize, task: &Task) -> Listening {
        self.listen_to(Path::upstream(self.router, self.id, port), task)
    }

    /// The state of the queues upstream of pull input `port`, without waiting for them.
    pub fn upstream(&self, port: usize) -> Listening {
        Listening { path: Path::upstream(self.router, self.id, port) }
    }

    /// The nearest elements downstream of push output `port` for which `is_end` is true.
    pub fn nearest_downstream(&self, port: usize, is_end: impl Fn(usize) -> bool) -> Vec<usize> {
        nearest(self.router, (self.id, port), false, is_end)
    }

    /// The nearest elements upstream of pull input `port` for which `is_end` is true.
    pub fn nearest_upstream(&self, port: usize, is_end: impl Fn(usize) -> bool) -> Vec<usize> {
        nearest(self.router, (self.id, port), true, is_end)
    }

    /// Schedules `task` whenever a queue downstream of push output `port` has room again.
    pub fn listen_for_room(&self, port: usize, task: &Task) -> Listening {
        self.listen_to(Path::downstream(self.router, self.id, port), task)
    }

    /// Checks, without listening, whether a queue upstream of pull input `port` has packets.
    pub fn watch(&self, port: usize) -> Listening {
        Listening { path: Path::upstream(self.router, self.id, port) }
    }

    fn listen_to(&self, path: Path, task: &Task) -> Listening {
        for notifier in path.wakers(self.router) {
            notifier.listen(task.clone());
        }
        Listening { path }
    }
}

/// What a task knows about the queues that it pulls from or pushes to.
#[derive(Clone, Debug, Default)]
pub struct Listening {
    path: Path,
}

impl Listening {
    /// Unschedules a running task that has no work, until it may have some.
    pub fn rest(&self, task: &Task, router: &Router) {
        if !self.active(router) {
            task.rest();
            // What changed between the look and the rest has told nobody.
            if self.active(router) {
                task.schedule();
            }
        }
    }

    /// True when there is a queue that reports its packets, or its room.
    pub fn is_bounded(&self) -> bool {
        self.path.has_ends()
    }

    /// True when a queue may have packets, or room: the task must then not rest.
    pub fn active(&self, router: &Router) -> bool {
        !self.path.all_tell || self.path.notifiers(router).any(Notifier::is_active)
    }
}
