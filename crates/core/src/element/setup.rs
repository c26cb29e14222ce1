//! What an element is given while it is configured.

use std::any::Any;
use std::sync::Arc;

use crate::args::Args;
use crate::names::NameTable;
use crate::plan::{Draft, Place, Receiver, Receiving, Transmitting};
use crate::schedule::{Task, Timer};
use crate::services::Services;

/// What an element is configured from.
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

    /// How many input ports the configuration uses.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How many output ports the configuration uses.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// A service of the program: devices, standard output, ...
    pub fn service<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.services.get()
    }

    /// The one `T` of this router, which all elements that ask for it share: what they want to know of one
    /// another, such as patterns by name. The first to ask makes it.
    pub fn shared<T: Any + Default + Send + Sync>(&mut self) -> Arc<T> {
        self.draft.shared()
    }

    /// Gives the element a task; it runs when scheduled, on its home thread. The first one made
    /// has index 0.
    pub fn task(&mut self) -> Task {
        self.draft.add_task(self.id, Place::First)
    }

    /// Gives the element a task that carries its packets over to another thread than they come
    /// from: the plan puts it there, unless the configuration pins it. The class must say that it
    /// [crosses threads](super::Class::crosses_threads).
    pub fn task_away(&mut self) -> Task {
        self.draft.add_task(self.id, Place::Away)
    }

    /// Gives the element a task on each thread, or on `most` of them, the first of which is `first`
    /// (0 unless given). The class must say that it
    /// [crosses threads](super::Class::crosses_threads).
    pub fn tasks_on_threads(&mut self, most: Option<usize>, first: Option<usize>) -> Receiver {
        self.draft.add_team(self.id, most, first)
    }

    /// Gives the element a task on each thread whose packets reach it. What comes on a thread leaves on
    /// it: these tasks stay where they are. An element that nothing reaches gets none.
    pub fn tasks_where_reached(&mut self) -> Receiver {
        self.draft.add_attendance(self.id)
    }

    /// Gives the element a task for each thread that the plan lets receive from a device.
    pub fn receiver(&mut self, wish: Receiving) -> Receiver {
        self.draft.add_receiver(self.id, wish)
    }

    /// Tells the plan that the element transmits to a device, so that it can say by how many queues.
    pub fn transmits(&mut self, wish: Transmitting) {
        self.draft.transmitters.push((self.id, wish));
    }

    /// Lets every task that does not receive from a device move to any thread while the router runs
    /// ([`Router::move_task`](crate::Router::move_task)): all elements then have state on all threads.
    pub fn let_tasks_move(&mut self) {
        self.draft.movable = true;
    }

    /// Gives the element a task that pulls from input `port`, and is of no use when packets are
    /// pushed there.
    pub fn pull_task(&mut self, port: usize) -> Task {
        self.draft.add_pull_task(self.id, port)
    }

    /// Gives the element a timer; it runs on the element's home thread. The first one made has
    /// index 0.
    pub fn timer(&mut self) -> Timer {
        self.draft.add_timer(self.id)
    }

    /// Sets the home thread of another element's tasks and timers, given by its full name, or of
    /// all elements of a compound; none leaves the choice to the plan (StaticThreadSched).
    pub fn pin(&mut self, element: &str, thread: Option<usize>) {
        self.draft.pins.push((element.to_owned(), thread));
    }

    /// Gives names to the elements that are configured after this one, in the compound where this
    /// one stands and within (AddressInfo, PortInfo).
    pub fn define(&mut self, names: NameTable) {
        self.definitions.extend(names);
    }

    /// Notes something that `check` shall tell the user: not wrong, but not what they may want.
    pub fn advise(&mut self, advice: impl Into<String>) {
        self.draft.advice.push((self.id, advice.into()));
    }

    /// Makes this element decide what happens when the program is asked to stop. False when another one does
    /// already.
    pub fn drive(&mut self) -> bool {
        *self.draft.driver.get_or_insert(self.id) == self.id
    }

    /// Seeds what is random in the router (RandomSeed).
    pub fn seed_random(&mut self, seed: u64) {
        self.draft.seed = Some(seed);
    }
}
