//! The element API, for authors of elements.
//!
//! An element is configured once. Then all threads that reach it share it, unchanged (`&self`, `Sync`). State
//! that changes per packet is its [`Element::Local`]; each such thread has its own. So an element that
//! compiles is free of data races.

mod init;
mod inspect;
mod instance;
mod offered;
mod per_packet;
mod reconfigure;
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

use std::sync::Arc;

use crate::capability::Offers;
use crate::engine::Context;
use crate::footprint::Footprint;
use crate::memory::Batch;
use crate::router::Router;
use crate::schedule::Notifier;

/// A packet-processing element.
///
/// Also implement [`PerPacket`] for an element that processes packets one by one. Implement
/// [`process`](Element::process) for one that processes batches from its first input to its first output, for
/// push and pull alike; [`push`](Element::push) and [`pull`](Element::pull) for any other; and
/// [`run_task`](Element::run_task) for one that acts without an incoming packet.
pub trait Element: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// The state that each thread that reaches the element keeps for itself: caches, random state.
    type Local: Default + Send + 'static;

    /// Creates the element from its configuration. Opens no device and no file.
    ///
    /// # Errors
    /// The arguments are invalid; [`Setup`] has the diagnostics.
    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed>;

    /// Inspects the graph around the element after all elements are configured and the plan is made, and
    /// reports errors in it. Opens no device and no file: `millrace check` runs it too.
    fn inspect(&self, _inspection: &mut Inspection<'_>) {}

    /// Prepares to run: opens files and devices, looks up other elements, schedules tasks. What cannot be undone is for
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// The element cannot run; the router does not start.
    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        Ok(())
    }

    /// Does what cannot be undone, such as emptying a file that exists. Called when all elements of the router have been
    /// initialised: where one of them refuses, nothing is lost.
    ///
    /// # Errors
    /// As for [`initialize`](Self::initialize).
    fn start(&self, _router: &Router) -> Result<(), Refused> {
        Ok(())
    }

    /// Processes a batch on its way from input 0 to output 0, in place: packets that remain in `batch` are
    /// sent on, in order. An element that processes packets one by one is a [`PerPacket`] instead.
    fn process(&self, _cx: &mut Context, _local: &mut Self::Local, _batch: &mut Batch) {}

    /// Processes a batch that arrived at push input `port`. Packets left in `batch` at the end are dropped as
    /// [`Unclaimed`](crate::Reason::Unclaimed).
    fn push(&self, cx: &mut Context, local: &mut Self::Local, _port: usize, batch: &mut Batch) {
        self.process(cx, local, batch);
        cx.push_batch(0, batch);
    }

    /// Fills `batch`, which is empty, with up to `max` packets for the puller of output `port`.
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

    /// Runs a task made with [`Setup::task`]; [`Context::index`] identifies it. Returns whether it did any
    /// work.
    fn run_task(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Runs when a timer made with [`Setup::timer`] expires; [`Context::index`] identifies it.
    fn run_timer(&self, _cx: &mut Context, _local: &mut Self::Local) {}

    /// Declares the handlers, in addition to those that every element has.
    fn handlers(_handlers: &mut Handlers<Self>) {}

    /// Declares what the element offers other elements, each a [`Capability`](crate::Capability): a queue's length, a table.
    fn capabilities(self: &Arc<Self>, _offers: &mut Offers<'_>) {}

    /// The signal that shows whether pull output `port` has packets. Elements that only forward packets need
    /// none.
    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        None
    }

    /// The signal that shows whether push input `port` has room for packets (active: it has). Elements that
    /// only forward packets need none.
    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        None
    }

    /// Whether the element shows packets at present, if its class can ([`Class::shows_packets`]). The engine
    /// asks when the router starts, and after a write to one of the element's handlers.
    fn shows(&self) -> bool {
        true
    }

    /// What the element may take of memory when it runs, at the limits of its arguments: tables that packets fill, and
    /// packets that wait. `millrace plan` and `millrace check` print the sum. An element whose memory does not depend
    /// on packets needs none.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// The number of packets that the element holds at this moment.
    fn held(&self) -> usize {
        0
    }

    /// For each ring through which `thread`, the running one, hands packets over to other threads, adds how
    /// many packets it has put in so far and how many of these have been taken out; always in the same order.
    /// A task leaves the thread only when the packets that were put in before are out, so that none is
    /// overtaken.
    fn handed_over(&self, local: &Self::Local, thread: usize, rings: &mut Vec<(u64, u64)>) {
        let _ = (local, thread, rings);
    }

    /// Called on the first thread when the program is asked to stop; returns true to keep running
    /// (DriverManager).
    fn stop_requested(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Finishes packets in flight in the element, and sends them on: those that a device has or that cross to
    /// another thread, but not those that a queue holds until its puller wants them. Returns whether any are
    /// left.
    ///
    /// In [`Phase::Draining`](crate::Phase::Draining), each thread calls this for the elements that it reaches,
    /// repeatedly until no thread finds any packet. Tasks and timers do not run any more, so packets come only
    /// from elements that finish theirs; they continue through the graph as usual. This method must not wait. It
    /// is not called when a hot swap replaces the router: [`take_state`](Self::take_state) takes over the
    /// packets.
    fn drain(&self, _cx: &mut Context, _local: &mut Self::Local) -> bool {
        false
    }

    /// Takes over the state of the element with this name and class in the configuration that this one
    /// replaces (a hot swap): packets, tables, counts.
    ///
    /// Called when this element is initialised, before its first packet, and while no thread runs either
    /// router. `old` is shared, so state that moves must be behind a lock, in an atomic or in a `PerThread`.
    /// Move large state, such as packets and flow tables (`std::mem::take` under the lock), instead of
    /// copying it. `old` is cleaned up afterwards and processes no more packets; packets that it still
    /// [holds](Element::held) are lost. [`Element::Local`] does not move. Take only what fits this element's
    /// own arguments: capacity, timeouts and patterns are the new ones. Schedule the tasks and timers that
    /// the state needs here.
    fn take_state(&self, _old: &Self, _init: &Init<'_>) {}

    /// Called after the threads have stopped, in element order: flush and restore.
    ///
    /// # Errors
    /// Something was lost or could not be restored; the message is reported.
    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        Ok(())
    }
}
