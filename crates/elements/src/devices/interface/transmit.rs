//! Transmits to a device: the part that ToDevice and similar elements share. It handles one queue
//! for each thread that reaches the element, as far as the device has enough, waiting for room,
//! counters and handlers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millrace_core::args::Kind;
use millrace_core::element::{Listening, Transmitting};
use millrace_core::{
    Args, Batch, BiasedMutex, Class, Context, Count, Element, Failed, Handlers, Init, PerThread,
    Reason, Refused, Router, Setup, Task, Timer, Timestamp,
};
use millrace_io::{Meter, Opened, QueueCounts, Queues, TxOptions, TxQueue, trouble};

use super::backend::Source;
use crate::task_handlers::task_handlers;

/// A class of elements that transmit to a device.
pub(crate) trait OutputClass: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// Reads the arguments.
    ///
    /// # Errors
    /// They are invalid.
    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed>;

    /// Opens the device.
    ///
    /// # Errors
    /// It cannot be opened.
    fn start(&self, transmission: &Transmission, init: &Init<'_>) -> Result<(), Refused> {
        transmission.initialize(init)
    }

    /// Drops the packets that the device cannot accept.
    fn prepare(&self, _cx: &mut Context, _batch: &mut Batch) {}

    /// Declares handlers in addition to those that all such elements have.
    fn handlers(_handlers: &mut Handlers<DeviceOutput<Self>>) {}
}

/// An element of such a class.
pub(crate) struct DeviceOutput<C> {
    pub(crate) class: C,
    pub(crate) transmission: Transmission,
}

impl<C: OutputClass> Element for DeviceOutput<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        C::configure(setup).map(|(class, transmission)| Self { class, transmission })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.class.start(&self.transmission, init)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.class.prepare(cx, batch);
        self.transmission.push(cx, batch);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.transmission.run(cx, |cx, batch| self.class.prepare(cx, batch))
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.transmission.run_timer();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        self::handlers(handlers);
        C::handlers(handlers);
    }

    fn held(&self) -> usize {
        self.transmission.held()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.transmission.take_state(&old.transmission);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.transmission.cleanup()
    }
}

/// How to transmit.
pub(crate) struct Wanted {
    pub(crate) options: TxOptions,
    /// Maximum number of queues to open; None for one per thread that reaches the element.
    pub(crate) max_queues: Option<usize>,
    /// Maximum number of packets pulled at a time.
    pub(crate) burst: usize,
    /// Whether pushed packets wait for room in the device; otherwise they are dropped.
    pub(crate) blocking: bool,
    /// Whether packets are padded to the minimum Ethernet frame.
    pub(crate) pad: bool,
    pub(crate) debug: bool,
    /// Whether failing to open the device only causes a warning.
    pub(crate) optional: bool,
}

impl Wanted {
    /// Reads BURST, BLOCKING, NO_PAD, DEBUG, QUEUE and MAXQUEUES.
    pub(crate) fn read(args: &mut Args<'_>) -> Self {
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let first: Option<u32> = args.in_range("QUEUE", Kind::Keyword, 0..=4095);
        let most = args.in_range("MAXQUEUES", Kind::Keyword, 1..=4096u32);
        let queues = Queues { first: first.unwrap_or(0) as usize, ..Queues::default() };
        Self {
            options: TxOptions { queues, named: first.is_some(), ..TxOptions::default() },
            max_queues: most.map(|most| most as usize),
            burst: burst.unwrap_or(64) as usize,
            blocking: args.keyword("BLOCKING", true),
            pad: !args.keyword("NO_PAD", true),
            debug: args.keyword("DEBUG", false),
            optional: false,
        }
    }
}

/// The transmitting part of an element.
pub(crate) struct Transmission {
    device: String,
    wanted: Wanted,
    /// Whether output 0 emits transmitted packets and output 1 rejected ones.
    has_outputs: bool,
    debug: AtomicBool,
    /// Pushed packets do not wait for room until there is some again: on virtual time, they waited in vain.
    impatient: AtomicBool,
    sent: PerThread<Count>,
    /// What `sent` was at the last reset.
    sent_before: AtomicU64,
    pulls: PerThread<Count>,
    /// Set when the device is opened.
    lanes: OnceLock<Lanes>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

/// An opened device.
struct Lanes {
    lanes: Vec<Lane>,
    /// The lane of each thread. If packets are pulled, it is the first lane for all threads: only
    /// one task pulls, and when it moves to another thread it must find the packets that still
    /// wait.
    of_thread: Vec<usize>,
}

/// A queue, behind a lock because threads may have to share it. If only one thread uses it, the
/// lock costs nothing.
#[repr(align(128))]
struct Lane {
    port: BiasedMutex<Port>,
    /// The queue's counters, if they can be read without the queue.
    meter: Option<Arc<Meter>>,
    /// The number of packets waiting in the port, for readers without the lock.
    waiting: Count,
}

/// A queue and the packets that wait for it.
struct Port {
    /// None after the run ends.
    queue: Option<Box<dyn TxQueue>>,
    /// The counters of a queue without a meter, as last read.
    counts: QueueCounts,
    /// Packets that were pulled but did not fit into the device.
    waiting: Batch,
    /// How long the last wait for room was, in microseconds.
    backoff: i64,
    /// The device's last error, and when it was reported. The same error is reported once a minute.
    complaint: (String, Timestamp),
}

/// The shortest Ethernet frame, without its check sequence (IEEE 802.3, 3.2.8).
const SHORTEST: usize = 60;
/// The time before the same device error is reported again.
const SILENCE: Timestamp = Timestamp::from_nanos(60_000_000_000);
/// On virtual time, so long pushed packets wait for room in the device. Nobody else runs meanwhile, and time stands still, so
/// what makes room is outside: the machine's own device.
const PATIENCE: Duration = Duration::from_millis(250);
/// The longest wait for room in the device, in microseconds.
const LONGEST_BACKOFF: i64 = 256;

impl Transmission {
    /// Requests a task and a timer.
    pub(crate) fn configure(setup: &mut Setup<'_>, device: String, wanted: Wanted) -> Self {
        let facts = Source::of(setup.service()).facts(&device, &wanted.options.method);
        setup.transmits(Transmitting {
            device: device.clone(),
            has_queues: facts.tx_queues,
            numa_node: facts.numa_node,
            first_queue: wanted.options.queues.first,
            queues: wanted.max_queues,
        });
        Self {
            device,
            debug: wanted.debug.into(),
            impatient: false.into(),
            wanted,
            has_outputs: true,
            sent: PerThread::default(),
            sent_before: 0.into(),
            pulls: PerThread::default(),
            lanes: OnceLock::new(),
            task: setup.pull_task(0),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        }
    }

    /// Keeps this part from using the element's outputs.
    pub(crate) fn without_outputs(mut self) -> Self {
        self.has_outputs = false;
        self
    }

    /// Opens the device, with a queue for each thread that may transmit.
    pub(crate) fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        match self.open(init) {
            Err(refused) if self.wanted.optional => {
                init.router().chatter(&format!("{}: {refused}; it drops packets", init.name()));
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn open(&self, init: &Init<'_>) -> Result<(), Refused> {
        let threads = (pushers(init).count_ones() as usize).max(1);
        let most = self.wanted.max_queues.unwrap_or(threads);
        let mut options = self.wanted.options.clone();
        options.queues = Queues { count: threads.min(most).max(1), ..options.queues };
        let opened = Source::of(init.service()).open_tx(&self.device, &options);
        self.start(init, opened.map_err(|error| Refused(error.to_string()))?)
    }

    /// Starts to transmit to a device that has been opened.
    pub(crate) fn start(
        &self,
        init: &Init<'_>,
        opened: Opened<dyn TxQueue>,
    ) -> Result<(), Refused> {
        let reach = pushers(init);
        let Opened { queues, needs, .. } = opened;
        init.needs(needs);
        if queues.is_empty() {
            return Err(Refused(format!("{}: no queue", self.device)));
        }
        self.tell_sharing(init, queues.len());
        let lane_of = |thread: u32| {
            let before = reach & (1u64 << thread).wrapping_sub(1);
            before.count_ones() as usize % queues.len()
        };
        let of_thread = (0..u64::BITS).map(lane_of).collect();
        let lanes = queues.into_iter().map(Lane::new).collect();
        // An element is initialised once.
        let _ = self.lanes.set(Lanes { lanes, of_thread });
        if init.is_pull_input(0) {
            let _ = self.upstream.set(init.listen(0, &self.task));
            self.task.schedule();
        }
        Ok(())
    }

    /// Takes over the packets that wait for room in the element that this one replaces.
    pub(crate) fn take_state(&self, old: &Self) {
        let pulls = self.upstream.get().is_some();
        let Some((lane, before)) = self.lanes().first().zip(old.lanes().first()) else { return };
        if pulls {
            std::mem::swap(&mut lane.port.visit().waiting, &mut before.port.visit().waiting);
            lane.waiting.set(before.waiting.get());
            before.waiting.set(0);
        }
    }

    /// Takes over the queues of the element that this one replaces, too.
    pub(crate) fn inherit(&self, old: &Self, init: &Init<'_>) -> Result<(), Refused> {
        let queues = old.lanes().iter().filter_map(Lane::close).collect();
        self.start(init, Opened::new("", queues))?;
        self.take_state(old);
        Ok(())
    }

    /// Reports if the device has fewer queues than planned.
    fn tell_sharing(&self, init: &Init<'_>, queues: usize) {
        let router = init.router();
        let planned = router.plan().transmitters.iter().find(|one| one.element == init.id());
        if let Some(planned) = planned.filter(|planned| queues < planned.queues.len()) {
            router.chatter(&format!(
                "{}: {} has {queues} of the {} transmit queues that are wanted: threads share them by lock",
                init.name(),
                self.device,
                planned.queues.len()
            ));
        }
    }

    /// Transmits pushed packets. Leaves the batch empty.
    pub(crate) fn push(&self, cx: &mut Context, batch: &mut Batch) {
        self.pad(batch);
        self.transmit_pushed(cx, batch);
        if !batch.is_empty() {
            self.insist(cx, batch);
        } else if self.impatient.load(Relaxed) {
            self.impatient.store(false, Relaxed);
        }
    }

    /// Packets that the device dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.lanes().iter().map(|lane| lane.counts().lost).sum()
    }

    /// Packets transmitted since the counter was last reset.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.total().wrapping_sub(self.sent_before.load(Relaxed))
    }

    /// Pulls packets, calls `prepare` on them and transmits them. Returns whether it did any work.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        mut prepare: impl FnMut(&mut Context, &mut Batch),
    ) -> bool {
        let Some(lane) = self.lane(cx) else { return false };
        let mut port = lane.port.lock(cx);
        // Reuses a batch: creating one allocates memory, with locked instructions.
        let mut batch = std::mem::replace(&mut port.waiting, cx.take_batch());
        let mut pulled = 0;
        if batch.is_empty() {
            // The lock is released: pulled packets may come through elements that push to this one.
            drop(port);
            self.pulls.mine(cx).add(1);
            pulled = cx.pull(0, self.wanted.burst, &mut batch);
            prepare(cx, &mut batch);
            self.pad(&mut batch);
            port = lane.port.lock(cx);
        }
        let sent = self.transmit(cx, &mut port, &mut batch);
        if batch.is_empty() {
            port.backoff = 0;
            if pulled == 0
                && sent == 0
                && let Some(upstream) = self.upstream.get()
            {
                upstream.rest(&self.task, cx.router());
            }
        } else {
            self.wait_for_room(cx, &mut port);
        }
        lane.waiting.set(batch.len() as u64);
        let spare = std::mem::replace(&mut port.waiting, batch);
        drop(port);
        cx.give_batch(spare);
        sent > 0
    }

    /// Called when there may be room again.
    pub(crate) fn run_timer(&self) {
        self.task.schedule();
    }

    /// Packets that wait for room.
    pub(crate) fn held(&self) -> usize {
        self.lanes().iter().map(|lane| lane.waiting.get() as usize).sum()
    }

    /// Flushes and releases the queues.
    pub(crate) fn cleanup(&self) -> Result<(), Refused> {
        let mut outcome = Ok(());
        for lane in self.lanes() {
            if let Some(mut queue) = lane.close() {
                outcome = outcome.and(queue.flush());
            }
        }
        outcome.map_err(|error| Refused(format!("{}: {}", self.device, trouble(&error))))
    }

    /// The queue of the running thread; None before initialization.
    #[inline]
    fn lane(&self, cx: &Context) -> Option<&Lane> {
        let Lanes { lanes, of_thread } = self.lanes.get()?;
        lanes.get(*of_thread.get(cx.thread())?)
    }

    /// All queues.
    fn lanes(&self) -> &[Lane] {
        self.lanes.get().map_or(&[], |lanes| &lanes.lanes)
    }

    fn pad(&self, batch: &mut Batch) {
        if !self.wanted.pad {
            return;
        }
        batch.for_each(|packet| {
            let missing = SHORTEST.saturating_sub(packet.len());
            if missing > 0 {
                packet.append(missing).fill(0);
            }
        });
    }

    /// Transmits packets until none are left or the device has no room, and removes packets that it
    /// rejects. Returns how many packets left the batch.
    fn transmit(&self, cx: &mut Context, port: &mut Port, batch: &mut Batch) -> usize {
        let before = batch.len();
        let Port { queue: Some(queue), complaint, .. } = port else {
            cx.drop_batch(batch, Reason::Stopped);
            return before;
        };
        while !batch.is_empty() {
            let copies = self.copies(cx, batch);
            let offered = batch.len();
            let outcome = queue.transmit(batch);
            let sent = offered - batch.len();
            self.sent.mine(cx).add(sent as u64);
            cx.consumed(sent);
            if let Some(mut copies) = copies {
                copies.truncate(sent);
                cx.created(copies.len());
                cx.push_batch(0, &mut copies);
                cx.give_batch(copies);
            }
            match outcome {
                Ok(_) if sent == 0 => break,
                Ok(_) => {}
                Err(error) => {
                    let (error, now) = (trouble(&error), cx.now());
                    if complaint.0 != error || complaint.1 + SILENCE < now {
                        self.say(cx, &error);
                        *complaint = (error, now);
                    }
                    self.refuse_first(cx, batch);
                }
            }
        }
        before - batch.len()
    }

    /// Sends the first packet, which the device rejected, to output 1, or drops it.
    fn refuse_first(&self, cx: &mut Context, batch: &mut Batch) {
        for packet in batch.drain_front(1) {
            match self.has_outputs {
                true => cx.push_or_drop(1, packet, Reason::DeviceError),
                false => drop(cx.drop(packet, Reason::DeviceError)),
            }
        }
    }

    /// Transmits as many packets as fit into the running thread's queue.
    fn transmit_pushed(&self, cx: &mut Context, batch: &mut Batch) {
        match self.lane(cx) {
            Some(lane) => {
                lane.port.with(cx, |cx, port| self.transmit(cx, port, batch));
            }
            None => cx.drop_batch(batch, Reason::Stopped),
        }
    }

    /// Shares of the packets for output 0, because the device keeps the originals. As many as there
    /// is memory for.
    fn copies(&self, cx: &mut Context, batch: &Batch) -> Option<Batch> {
        if !self.has_outputs || !cx.is_connected(0) {
            return None;
        }
        let mut copies = cx.take_batch();
        for packet in batch {
            let Some(copy) = packet.share() else { break };
            // It has as much room as the other batch.
            let _ = copies.push(copy);
        }
        Some(copies)
    }

    /// Retries pushed packets if BLOCKING is set, and drops them otherwise.
    #[cold]
    fn insist(&self, cx: &mut Context, batch: &mut Batch) {
        let is_virtual = cx.router().clock().is_virtual();
        let mut since = Instant::now();
        let mut pause = Duration::from_micros(1);
        while !batch.is_empty() {
            if !self.wanted.blocking || self.impatient.load(Relaxed) {
                cx.drop_batch(batch, Reason::TransmitFull);
            } else if cx.gives_up() {
                cx.drop_batch(batch, Reason::Stopped);
            } else if is_virtual && since.elapsed() >= PATIENCE {
                self.impatient.store(true, Relaxed);
                self.say(cx, "no room, and virtual time does not advance meanwhile: it drops packets until there is");
            } else {
                // The thread has nothing else to do with the packet. The queue is unlocked
                // meanwhile, so that its counts can be read.
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
                let before = batch.len();
                self.transmit_pushed(cx, batch);
                if batch.len() < before {
                    since = Instant::now();
                }
            }
        }
    }

    /// Schedules a retry, with a delay that grows while there is no room.
    fn wait_for_room(&self, cx: &mut Context, port: &mut Port) {
        port.backoff = (port.backoff * 2).clamp(1, LONGEST_BACKOFF);
        self.task.unschedule();
        let now = cx.refresh_now();
        self.timer.schedule_at(now + Timestamp::from_micros(port.backoff));
        if self.debug.load(Relaxed) {
            self.say(cx, &format!("no room, backing off for {} us at {now}", port.backoff));
        }
    }

    fn say(&self, cx: &Context, message: &str) {
        let router = cx.router();
        router.chatter(&format!("{}: {}: {message}", router.name_of(cx.element()), self.device));
    }
}

/// The threads that push to the element, one bit each; none if packets are pulled.
fn pushers(init: &Init<'_>) -> u64 {
    if init.is_pull_input(0) { 0 } else { init.threads() }
}

impl Lane {
    fn new(queue: Box<dyn TxQueue>) -> Self {
        let meter = queue.meter();
        let port = BiasedMutex::new(Port {
            queue: Some(queue),
            counts: QueueCounts::default(),
            waiting: Batch::new(),
            backoff: 0,
            complaint: <(String, Timestamp)>::default(),
        });
        Self { port, meter, waiting: Count::default() }
    }

    /// The queue's counters.
    fn counts(&self) -> QueueCounts {
        match &self.meter {
            Some(meter) => meter.counts(),
            None => self.port.visit().count(),
        }
    }

    /// Gives the queue away and keeps its counts.
    fn close(&self) -> Option<Box<dyn TxQueue>> {
        let mut port = self.port.visit();
        if self.meter.is_none() {
            port.count();
        }
        port.queue.take()
    }
}

impl Port {
    fn count(&mut self) -> QueueCounts {
        if let Some(queue) = &self.queue {
            self.counts = queue.counts();
        }
        self.counts
    }
}

/// Registers the handlers that all such elements have.
fn handlers<C: OutputClass>(handlers: &mut Handlers<DeviceOutput<C>>) {
    handlers.read("count", |e, _| e.transmission.sent());
    handlers.write("reset_counts", |e, _| {
        let transmission = &e.transmission;
        transmission.sent_before.store(transmission.sent.total(), Relaxed);
        Ok(())
    });
    handlers.read("lost", |e, _| e.transmission.lost());
    handlers.read("queues", |e, _| e.transmission.lanes.get().map_or(0, |l| l.lanes.len()));
    handlers.read("pulls", |e, _| e.transmission.pulls.total());
    handlers.read("q", |e, _| e.transmission.held() > 0);
    handlers.read("signal", |e, call| {
        let upstream = e.transmission.upstream.get();
        upstream.is_some_and(|upstream| upstream.active(call.router()))
    });
    handlers.read("debug", |e, _| e.transmission.debug.load(Relaxed));
    handlers.write("debug", |e, call| {
        e.transmission.debug.store(call.parse()?, Relaxed);
        Ok(())
    });
    task_handlers(handlers, |e| &e.transmission.task);
}
