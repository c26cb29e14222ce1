//! What an element gets when it is configured.

use std::any::Any;
use std::sync::Arc;

use crate::args::Args;
use crate::names::NameTable;
use crate::plan::{Draft, Place, Receiver, Receiving, Transmitting};
use crate::schedule::{Task, Timer};
use crate::services::Services;

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
    /// ([`Router::move_task`](crate::Router::move_task)): all elements then have state on all threads.
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
        self.draft.pins.add(element, thread);
    }

    /// Defines names for the elements that are configured after this one, in this element's compound element
    /// and those inside it (AddressInfo, PortInfo).
    pub fn define(&mut self, names: NameTable) {
        self.definitions.extend(names);
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
