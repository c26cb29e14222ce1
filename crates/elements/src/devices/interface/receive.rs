//! Receives from a device: the part that FromDevice and similar elements share. It handles any
//! number of queues on any number of threads, with their counters and handlers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::element::{Receiver, Receiving, share};
use millrace_core::{
    Batch, BiasedMutex, Class, Context, Count, Element, Failed, Footprint, Handlers, Init, Lock,
    Offers, PerThread, Refused, Router, Setup, Task, Timestamp,
};
use millrace_io::af_packet::rx_ring_bytes;
use millrace_io::{
    Capabilities, Meter, Method, Opened, QueueCounts, Queues, RxOptions, RxQueue, trouble,
};

use super::backend::Source;

/// An element that receives from a device.
pub(crate) trait Receives: Element {
    /// Its receiving part.
    fn reception(&self) -> &Reception;
}

/// A class of elements that emit what a device receives.
pub(crate) trait InputClass: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// Reads the arguments.
    ///
    /// # Errors
    /// They are invalid.
    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed>;

    /// Removes the received packets that must not leave by output 0.
    fn sort_out(&self, _cx: &mut Context, _batch: &mut Batch) {}

    /// Offers what other elements can use.
    fn capabilities(_element: &Arc<DeviceInput<Self>>, _offers: &mut Offers<'_>) {}

    /// Declares handlers in addition to those that all such elements have.
    fn handlers(_handlers: &mut Handlers<DeviceInput<Self>>) {}
}

/// An element of such a class.
pub(crate) struct DeviceInput<C> {
    pub(crate) class: C,
    pub(crate) reception: Reception,
}

impl<C: InputClass> Element for DeviceInput<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        C::configure(setup).map(|(class, reception)| Self { class, reception })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let predecessor = init.predecessor::<Self>();
        self.reception.initialize(init, predecessor.as_deref().map(Self::reception))
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.reception.run(cx, |cx, batch| {
            self.class.sort_out(cx, batch);
            cx.push_batch(0, batch);
        })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        C::capabilities(self, offers);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        self::handlers(handlers);
        C::handlers(handlers);
    }

    fn footprint(&self) -> Footprint {
        self.reception.footprint()
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.reception.inherit(&old.reception, init);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.reception.cleanup();
        Ok(())
    }
}

impl<C: InputClass> Receives for DeviceInput<C> {
    fn reception(&self) -> &Reception {
        &self.reception
    }
}

/// What to receive, and how.
pub(crate) struct Wanted {
    pub(crate) options: RxOptions,
    /// Maximum number of packets received from a queue at a time.
    pub(crate) burst: usize,
    pub(crate) active: bool,
    /// Whether failing to open the device only causes a warning.
    pub(crate) optional: bool,
    /// The element's settings for queues and threads; `configure` fills in the device and its
    /// properties.
    pub(crate) receiving: Receiving,
}

/// The receiving part of an element.
pub(crate) struct Reception {
    device: String,
    options: RxOptions,
    burst: usize,
    /// Whether threads share queues if there are fewer queues than threads.
    sharing: bool,
    active: AtomicBool,
    optional: bool,
    receiver: Receiver,
    /// Set when the device is opened.
    lines: OnceLock<Lines>,
    received: PerThread<Count>,
    /// What `received` was at the last reset.
    received_before: AtomicU64,
}

/// An opened device.
struct Lines {
    queues: Vec<Line>,
    /// The index of the element's first task.
    first_task: usize,
    /// For each of the element's tasks, the queues that it receives from.
    shares: Vec<Vec<usize>>,
    capabilities: Capabilities,
}

/// A queue, behind a lock because threads may share it. If only one thread uses it, the lock costs
/// nothing.
#[repr(align(128))]
struct Line {
    /// None after the run ends.
    queue: BiasedMutex<Option<Box<dyn RxQueue>>>,
    /// The queue's counters, if they can be read without the queue.
    meter: Option<Arc<Meter>>,
    /// The counters of a queue without a meter, as last read.
    counts: Lock<QueueCounts>,
    /// Whether the last attempt to receive failed, so that a failure is reported only once.
    failing: AtomicBool,
}

impl Reception {
    /// Requests threads. Call this when all arguments have been read.
    pub(crate) fn configure(setup: &mut Setup<'_>, device: String, wanted: Wanted) -> Self {
        let facts = Source::of(setup.service()).facts(&device, &wanted.options.method);
        let sharing = wanted.receiving.max_threads.is_some();
        let receiver = setup.receiver(Receiving {
            device: device.clone(),
            has_queues: facts.rx_queues,
            numa_node: facts.numa_node,
            ..wanted.receiving
        });
        Self {
            device,
            options: wanted.options,
            burst: wanted.burst,
            sharing,
            active: wanted.active.into(),
            optional: wanted.optional,
            receiver,
            lines: OnceLock::new(),
            received: PerThread::default(),
            received_before: 0.into(),
        }
    }

    /// Opens the device and starts to receive. If `predecessor`, the element that this one is to replace, has the device
    /// open with the same options, this waits until it [inherits](Self::inherit) the queues instead: two sockets would
    /// both receive each packet for a while, and packets waiting in the old one would be lost.
    fn initialize(&self, init: &Init<'_>, predecessor: Option<&Self>) -> Result<(), Refused> {
        if predecessor.is_some_and(|old| self.can_inherit(old)) {
            return Ok(());
        }
        match self.open(init) {
            Err(refused) if self.optional => {
                init.router().chatter(&format!("{}: {refused}; it receives nothing", init.name()));
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// What the device's rings take, one for each queue, where they are known before the device is opened.
    pub(crate) fn footprint(&self) -> Footprint {
        match self.options.method {
            Method::Ring | Method::Best(_) => {
                let queues = self.receiver.queues().len().max(1);
                Footprint::at_start(rx_ring_bytes(self.options.descriptors).saturating_mul(queues))
            }
            Method::Socket | Method::Xdp(_) | Method::Dpdk(_) => Footprint::default(),
        }
    }

    /// Whether the queues of `old` are those that this element would open, and are to be handed over. Queues of DPDK and
    /// AF_XDP are shared between elements, and lose nothing.
    pub(crate) fn can_inherit(&self, old: &Self) -> bool {
        self.device == old.device
            && self.options == old.options
            && self.receiver.queues() == old.receiver.queues()
            && old.lines.get().is_some_and(|lines| lines.capabilities.handed_over)
    }

    /// Takes over the queues of the element that this one replaces, with the packets in them. Call this when the
    /// threads of `old` have ended.
    pub(crate) fn inherit(&self, old: &Self, init: &Init<'_>) {
        let waits = self.lines.get().is_none() && self.can_inherit(old);
        let Some(lines) = old.lines.get().filter(|_| waits) else { return };
        let queues: Vec<_> = lines.queues.iter().filter_map(Line::close).collect();
        let opened = Opened::with(queues, lines.capabilities.clone());
        if let Err(Refused(why)) = self.start(init, opened) {
            init.router().chatter(&format!("{}: {why}", init.name()));
        }
    }

    fn open(&self, init: &Init<'_>) -> Result<(), Refused> {
        let planned = self.receiver.queues();
        let queues = Queues { first: planned.start, count: planned.len() };
        let options = RxOptions { queues, ..self.options.clone() };
        let opened = Source::of(init.service()).open_rx(&self.device, &options);
        self.start(init, opened.map_err(|error| Refused(error.to_string()))?)
    }

    /// The number of queues in the plan.
    pub(crate) fn wanted_queues(&self) -> usize {
        self.receiver.queues().len()
    }

    /// The tasks that receive.
    pub(crate) fn tasks(&self) -> &[Task] {
        self.receiver.tasks()
    }

    /// Packets received since the counter was last reset.
    pub(crate) fn received(&self) -> u64 {
        self.received.total().wrapping_sub(self.received_before.load(Relaxed))
    }

    /// Starts to receive from a device that has been opened.
    pub(crate) fn start(
        &self,
        init: &Init<'_>,
        opened: Opened<dyn RxQueue>,
    ) -> Result<(), Refused> {
        let Opened { queues, capabilities, needs, .. } = opened;
        init.needs(needs);
        if queues.is_empty() {
            return Err(Refused(format!("{}: no queue", self.device)));
        }
        let tasks = self.receiver.tasks();
        // Threads that share a queue reorder its packets, so they do this only on request.
        let most = if self.sharing { tasks.len() } else { tasks.len().min(queues.len()) };
        let share_of = |slot| match slot < most {
            true => share(queues.len(), most, slot).collect(),
            false => Vec::new(),
        };
        let shares: Vec<Vec<usize>> = (0..tasks.len()).map(share_of).collect();
        if most < tasks.len() {
            init.router().chatter(&format!(
                "{}: {} has {} of the {} receive queues that are wanted: the other threads receive \
                 nothing from it",
                init.name(),
                self.device,
                queues.len(),
                tasks.len()
            ));
        }
        for (task, share) in tasks.iter().zip(&shares) {
            let ready: Option<Vec<_>> =
                share.iter().filter_map(|&at| queues.get(at)).map(|q| q.readiness()).collect();
            // A queue that cannot signal readiness must be polled, and then the others are polled
            // too.
            task.wait_readable(ready.unwrap_or_default());
        }
        let queues = queues.into_iter().map(Line::new).collect();
        // An element is initialised once.
        let first_task = tasks.first().map_or(0, Task::index);
        let _ = self.lines.set(Lines { queues, first_task, shares, capabilities });
        if self.is_active() {
            tasks.iter().for_each(Task::schedule);
        }
        Ok(())
    }

    /// Receives once from each queue of the running task, and passes the packets to `pass_on`.
    /// Returns whether any packets arrived.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        mut pass_on: impl FnMut(&mut Context, &mut Batch),
    ) -> bool {
        let Some(lines) = self.lines.get() else { return false };
        let Some(share) = lines.shares.get(cx.index().wrapping_sub(lines.first_task)) else {
            return false;
        };
        if !self.is_active() {
            self.rest(cx);
            return false;
        }
        let mut worked = false;
        let mut finished = true;
        let mut batch = cx.take_batch();
        for &at in share {
            let Some(line) = lines.queues.get(at) else { continue };
            finished &= line.receive(cx, self, &mut batch);
            let n = batch.len();
            if n == 0 {
                continue;
            }
            worked = true;
            cx.created(n);
            self.received.mine(cx).add(n as u64);
            if !lines.capabilities.annotated {
                self.annotate(cx, &mut batch);
            }
            pass_on(cx, &mut batch);
        }
        cx.give_batch(batch);
        if finished {
            self.rest(cx);
        }
        worked
    }

    /// Takes the running task off the schedule.
    #[cold]
    fn rest(&self, cx: &Context) {
        if let Some(task) = self.receiver.tasks().get(self.receiver.slot(cx.index())) {
            task.rest();
        }
    }

    /// Releases the queues. Their counts are kept for the handlers.
    pub(crate) fn cleanup(&self) {
        for line in self.lines.get().iter().flat_map(|lines| &lines.queues) {
            drop(line.close());
        }
    }

    fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    fn annotate(&self, cx: &Context, batch: &mut Batch) {
        let now = cx.now();
        let wanted = self.options.timestamp;
        // Whoever received the packets has just written their descriptors: nothing needs to be prefetched.
        batch.for_each_ahead::<0>(|packet| {
            packet.start_with_mac_header();
            if !wanted {
                packet.set_timestamp(Timestamp::ZERO);
            } else if packet.timestamp().is_zero() {
                packet.set_timestamp(now);
            }
        });
    }

    /// The number of open queues.
    pub(crate) fn open_queues(&self) -> usize {
        self.lines.get().map_or(0, |lines| lines.queues.len())
    }

    /// The thread that receives from each queue.
    pub(crate) fn threads_of_queues(&self) -> Vec<usize> {
        let Some(lines) = self.lines.get() else { return Vec::new() };
        let thread = |queue: usize| {
            let task = lines.shares.iter().position(|share| share.contains(&queue));
            task.and_then(|task| self.tasks().get(task)).map_or(0, Task::home)
        };
        (0..lines.queues.len()).map(thread).collect()
    }

    /// The threads that receive, for handlers.
    pub(crate) fn home_threads(&self) -> String {
        let homes = self.tasks().iter().map(|task| task.home().to_string());
        homes.collect::<Vec<_>>().join(" ")
    }

    /// The sum of all queues' counters.
    pub(crate) fn counts(&self) -> QueueCounts {
        let lines = self.lines.get().into_iter().flat_map(|lines| &lines.queues);
        lines.fold(QueueCounts::default(), |sum, line| sum + line.counts())
    }
}

impl Line {
    fn new(queue: Box<dyn RxQueue>) -> Self {
        Self {
            meter: queue.meter(),
            queue: BiasedMutex::new(Some(queue)),
            counts: Lock::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// Receives into `batch` unless another thread is receiving from the queue. Returns whether no
    /// packet will ever arrive again.
    fn receive(&self, cx: &Context, reception: &Reception, batch: &mut Batch) -> bool {
        let received = self.queue.try_with(cx, |queue| match queue {
            Some(queue) => match queue.receive(batch, reception.burst) {
                Ok(0) if queue.is_finished() => Received::Finished,
                Ok(0) => Received::Nothing,
                Ok(_) => Received::Packets,
                Err(error) => Received::Failed(error),
            },
            None => Received::Finished,
        });
        match received {
            Some(Received::Packets) => {
                if self.failing.load(Relaxed) {
                    self.tell_recovery(cx, reception);
                }
                false
            }
            Some(Received::Nothing) | None => false,
            Some(Received::Finished) => true,
            Some(Received::Failed(error)) => {
                self.tell_failure(cx, reception, &error);
                false
            }
        }
    }

    #[cold]
    fn tell_recovery(&self, cx: &Context, reception: &Reception) {
        self.failing.store(false, Relaxed);
        say(cx, &format!("{} receives again", reception.device));
    }

    /// The interface may be down for a while.
    #[cold]
    fn tell_failure(&self, cx: &Context, reception: &Reception, error: &io::Error) {
        if !self.failing.swap(true, Relaxed) {
            match trouble(error) {
                // A TAP interface without a name yet goes by the name of its element.
                words if reception.device == name_of(cx) => say(cx, &words),
                words => say(cx, &format!("{}: {words}", reception.device)),
            }
        }
    }

    fn counts(&self) -> QueueCounts {
        if let Some(meter) = &self.meter {
            return meter.counts();
        }
        let queue = self.queue.visit();
        let mut counts = self.counts.lock();
        if let Some(queue) = queue.as_ref() {
            *counts = queue.counts();
        }
        *counts
    }

    /// Gives the queue away and keeps its counts.
    fn close(&self) -> Option<Box<dyn RxQueue>> {
        if self.meter.is_none() {
            self.counts();
        }
        self.queue.visit().take()
    }
}

/// The outcome of an attempt to receive.
enum Received {
    Packets,
    Nothing,
    Finished,
    Failed(io::Error),
}

fn name_of(cx: &Context) -> &str {
    cx.router().name_of(cx.element())
}

fn say(cx: &Context, message: &str) {
    cx.router().chatter(&format!("{}: {message}", name_of(cx)));
}

/// Registers the handlers that all such elements have.
pub(crate) fn handlers<E: Receives>(handlers: &mut Handlers<E>) {
    handlers.read("count", |e, _| e.reception().received());
    handlers.write("reset_counts", |e, _| {
        let reception = e.reception();
        reception.received_before.store(reception.received.total(), Relaxed);
        Ok(())
    });
    handlers.read("kernel_drops", |e, _| e.reception().counts().lost);
    handlers.read("segmented", |e, _| e.reception().counts().segmented);
    handlers.read("queues", |e, _| e.reception().lines.get().map_or(0, |lines| lines.queues.len()));
    handlers.read("active", |e, _| e.reception().is_active());
    handlers.write("active", |e, call| {
        e.reception().active.store(call.parse()?, Relaxed);
        e.reception().receiver.tasks().iter().for_each(Task::schedule);
        Ok(())
    });
    handlers
        .read("scheduled", |e, _| e.reception().receiver.tasks().iter().any(Task::is_scheduled));
    handlers.write("scheduled", |e, call| {
        let change = if call.parse()? { Task::schedule } else { Task::unschedule };
        e.reception().receiver.tasks().iter().for_each(change);
        Ok(())
    });
    handlers.read("home_thread", |e, _| e.reception().home_threads());
}
