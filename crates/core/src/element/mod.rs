//! The element API: what somebody writes who writes an element.
//!
//! An element is configured once and then shared, unchanged, by every thread that reaches it
//! (`&self`, `Sync`). What it changes per packet is its [`Element::Local`], of which each such
//! thread has one of its own. So an element that compiles is free of data races.

mod init;
mod inspect;
mod instance;
mod per_packet;
mod setup;

pub use init::{Init, Listening, Refused};
pub use inspect::{Inspection, Port};
pub(crate) use instance::{AnyElement, Direction, Instance};
pub use per_packet::{PerPacket, Way};
pub use setup::Setup;

pub use crate::args::Failed;
pub use crate::graph::{Class, Flow, PortCount, PortKind, Processing};
pub use crate::plan::{Receiver, Receiving, Transmitting, share};
pub use crate::router::{
    ANY_HANDLER, Call, Handler, HandlerCall, HandlerError, Handlers, IntoText, Text,
};

use crate::engine::Context;
use crate::memory::Batch;
use crate::router::Router;
use crate::schedule::Notifier;

/// A packet-processing element.
///
/// Write [`PerPacket`] beside for an element that treats packets one by one,
/// [`process`](Element::process) for one that treats batches from its first input to its first
/// output in push and pull alike, [`push`](Element::push) and [`pull`](Element::pull) for any
/// other, [`run_task`](Element::run_task) for one that acts of its own accord.
pub trait Element: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// What each thread that reaches the element keeps for itself: caches, random state.
    type Local: Default + Send + 'static;

    /// Makes the element from its configuration. Touches no device and no file.
    ///
    /// # Errors
    /// The arguments are wrong; [`Setup`] has the diagnostics.
    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed>;

    /// Looks at the graph around the element once all elements are configured and the plan is made,
    /// and says what is wrong with it. Touches no device and no file: `millrace check` runs it too.
    fn inspect(&self, _inspection: &mut Inspection<'_>) {}

    /// Gets ready to run: opens files and devices, looks up other elements, schedules tasks.
    ///
    /// # Errors
    /// The element cannot run; the router then does not start.
    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        Ok(())
    }

    /// Treats a batch on its way from input 0 to output 0, in place: packets that remain in
    /// `batch` go on, in order. An element that treats packets one by one is a [`PerPacket`] instead.
    fn process(&self, _cx: &mut Context, _local: &mut Self::Local, _batch: &mut Batch) {}

    /// Takes a batch that arrived at push input `port`. What is left in `batch` at the end is
    /// dropped as [`Unclaimed`](crate::Reason::Unclaimed).
    fn push(&self, cx: &mut Context, local: &mut Self::Local, _port: usize, batch: &mut Batch) {
        self.process(cx, local, batch);
        cx.push_batch(0, batch);
    }

    /// Fills `batch`, which is empty, with up to `max` packets for whoever pulls output `port`.
    fn pull(
        &self,
        cx: &mut Context,
        local: &mut Self::Local,
        _port: usize,
        max: usize,
        batch: &mut Batch,
    ) {
        cx.pull(0, max, batch);
        self.process(cx, local, batch);
    }

    /// Runs a task made with [`Setup::task`]; [`Context::index`] says which. Returns whether it
    /// did anything.
    fn run_task(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Runs when a timer made with [`Setup::timer`] expires; [`Context::index`] says which.
    fn run_timer(&self, _cx: &mut Context, _local: &mut Self::Local) {}

    /// Declares the handlers, beside those that every element has.
    fn handlers(_handlers: &mut Handlers<Self>) {}

    /// The signal that says whether pull output `port` has packets to give; elements that only
    /// pass packets on need not answer.
    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        None
    }

    /// The signal that says whether push input `port` has room for packets (active: it has);
    /// elements that only pass packets on need not answer.
    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        None
    }

    /// Whether the element shows packets at present, of a class that does
    /// ([`Class::shows_packets`]); asked when the router starts, and when one of the element's handlers was
    /// written.
    fn shows(&self) -> bool {
        true
    }

    /// Packets that the element keeps at this moment.
    fn held(&self) -> usize {
        0
    }

    /// Adds, for each ring by which `thread`, the running one, hands packets over to other threads, how many it
    /// has put in so far and how many of these have been taken out; always in the same order. A task that
    /// leaves the thread does so when what was put in before is out, lest it be overtaken.
    fn handed_over(&self, local: &Self::Local, thread: usize, rings: &mut Vec<(u64, u64)>) {
        let _ = (local, thread, rings);
    }

    /// Called on the first thread when the program was asked to stop; true to go on running
    /// (DriverManager).
    fn stop_requested(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Finishes packets that are under way in the element and sends them on: those that a device has or that are to
    /// cross to another thread, but not those that it stores until they are pulled, as a queue does. Returns
    /// whether any are left.
    ///
    /// In [`Phase::Draining`](crate::Phase::Draining), each thread calls this for the elements that it reaches, over
    /// and over, until no thread finds any packet. Tasks and timers do not run any more, so all packets come from
    /// elements that finish theirs; they go on through the graph as before. The element does not wait here itself.
    /// Nothing is finished when a hot swap replaces the router: [`take_state`](Self::take_state) takes the packets over.
    fn drain(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Takes over the state of the element of this name and class in the configuration that this
    /// one replaces (a hot swap): packets, tables, counts.
    ///
    /// Called when this element is initialised and no thread runs either router, before the first
    /// packet comes. `old` is shared, so what moves must be behind a lock, in an atomic or in a
    /// `PerThread`: take it (`std::mem::take` under the lock) rather than copy it when it is large,
    /// as packets and flow tables are. `old` is cleaned up afterwards and treats no packet any
    /// more; what it still [holds](Element::held) then is gone. [`Element::Local`] does not move.
    /// Take only what fits this element's own arguments: capacity, timeouts and patterns are the
    /// new ones; tasks and timers that the state needs are to be scheduled here.
    fn take_state(&self, _old: &Self, _init: &Init<'_>) {}

    /// Called when the threads have stopped, in element order: flush and restore.
    ///
    /// # Errors
    /// Something was lost or could not be restored; the message is reported.
    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        Ok(())
    }
}
