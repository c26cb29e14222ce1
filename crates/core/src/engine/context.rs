//! What a running element acts through: its outputs and inputs, drops, time.

use std::sync::Arc;

use super::biased::Identity;
use super::chain::Chain;
use super::dispatch::{NOWHERE, Waiting, Wiring};
use super::round::Rounds;
use super::task::Move;
use super::timer::{Inbox, TimerQueue};
use super::{Task, Waker};
use crate::drops::Reason;
use crate::element::node::Node;
use crate::memory::{Batch, Drain, Packet, Ports};
use crate::router::Router;
use crate::stats::{COUNTED, NodeStats};
use crate::time::Timestamp;

/// One thread's state, as the element that it runs sees it.
///
/// A packet that an element got must be sent ([`push`](Self::push),
/// [`push_batch`](Self::push_batch)), dropped with a reason ([`drop`](Self::drop)), kept by the
/// element ([`held`](crate::Element::held)) or consumed ([`consumed`](Self::consumed)), so that
/// every packet is accounted for.
#[repr(align(128))]
pub struct Context {
    thread: usize,
    identity: Identity,
    router: Arc<Router>,
    /// One an element; the last one is the engine's own.
    stats: Arc<[NodeStats]>,
    now: Timestamp,
    rounds: Rounds,
    /// When a device ended the thread's sleep, until the first packets are sent on.
    woken: Option<Timestamp>,
    /// The element that runs, which of its tasks or timers, and its outputs and inputs.
    running: Running,
    /// When the time of the running element began to count, in cycles.
    mark: u64,
    waiting: Waiting,
    /// One instance of each element that this thread reaches; absent while it runs.
    nodes: Vec<Option<Box<dyn Node>>>,
    wiring: Arc<Wiring>,
    /// For each frame the chain that begins there; absent while it runs.
    chains: Vec<Option<Box<Chain>>>,
    /// The frames inside the chain that runs.
    inside: Vec<(usize, u64)>,
    tasks: Vec<Task>,
    leaving: Vec<Leaving>,
    timers: TimerQueue,
    waker: Arc<Waker>,
    random: fastrand::Rng,
}

/// A task that is to be handed over when all that this thread had handed over to others before is out of its
/// rings: what the task hands over on its new thread would overtake it.
struct Leaving {
    task: Task,
    to: usize,
    /// For each element, for each of its rings: packets put in, and taken out, when the task stopped here.
    handed_over: Vec<Vec<(u64, u64)>>,
}

impl Leaving {
    fn is_ready(&self, now: &[Vec<(u64, u64)>]) -> bool {
        let then = self.handed_over.iter().flatten();
        // Rings that were made since then have nothing of the task.
        let now =
            self.handed_over.iter().zip(now).flat_map(|(then, now)| now.iter().take(then.len()));
        then.zip(now).all(|((put_in, _), (_, taken_out))| taken_out >= put_in)
    }
}

#[derive(Clone, Copy, Default)]
struct Running {
    element: usize,
    index: usize,
    first_output: usize,
    outputs: usize,
}

/// Sending, pulling, dropping.
impl Context {
    /// Sends a packet by push output `port`; drops it when the port is not connected.
    #[inline]
    pub fn push(&mut self, port: usize, packet: Packet) {
        self.push_or_drop(port, packet, Reason::Unconnected);
    }

    /// Sends a packet by push output `port`, or drops it for `reason` when the port is not
    /// connected: the way of error outputs that a configuration may leave out.
    #[inline]
    pub fn push_or_drop(&mut self, port: usize, packet: Packet, reason: Reason) {
        match self.target(port) {
            Some(frame) => {
                self.here().sent.add(1);
                self.waiting.add(frame, packet);
            }
            None => {
                self.drop(packet, reason);
            }
        }
    }

    /// Sends all packets of a batch by push output `port`; drops them when the port is not
    /// connected. The batch is empty afterwards.
    #[inline]
    pub fn push_batch(&mut self, port: usize, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        if self.woken.is_some() {
            self.note_arrival(batch);
        }
        match self.target(port) {
            Some(frame) => {
                self.here().sent.add(batch.len() as u64);
                self.waiting.add_batch(frame, batch);
            }
            None => self.drop_batch(batch, Reason::Unconnected),
        }
    }

    /// Distributes a batch over push outputs: `choose` says each packet's port. Packets with one
    /// port keep their order. Ports that are not connected drop.
    #[inline]
    pub fn route(&mut self, batch: &mut Batch, mut choose: impl FnMut(&mut Packet) -> usize) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        batch.classify(&mut ports, |packet| u16::try_from(choose(packet)).unwrap_or(u16::MAX));
        let len = batch.len();
        self.route_by(batch, &ports[..len]);
    }

    /// Distributes a batch as [`route`](Self::route) does; packets that `choose` gives a reason for
    /// are dropped.
    #[inline]
    pub fn route_or_drop(
        &mut self,
        batch: &mut Batch,
        mut choose: impl FnMut(&mut Packet) -> Result<usize, Reason>,
    ) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        batch.classify(&mut ports, |packet| match choose(packet) {
            Ok(port) => u16::try_from(port).unwrap_or(u16::MAX),
            Err(reason) => Self::port_to_drop(reason),
        });
        let len = batch.len();
        self.route_by(batch, &ports[..len]);
    }

    /// Distributes a batch over push outputs by a port for each packet, in order. Runs of equal
    /// ports move together, and a batch with one port moves as a whole.
    pub fn route_by(&mut self, batch: &mut Batch, ports: &[u16]) {
        match ports {
            // Without a way out of the loop it is one over vectors.
            [first, ..] if ports.iter().fold(0, |odd, port| odd | (port ^ first)) == 0 => {
                match self.target(usize::from(*first)) {
                    Some(_) => self.push_batch(usize::from(*first), batch),
                    None => self.drop_batch(batch, reason_to_drop(*first)),
                }
            }
            _ if self.waiting.merges() && ports.iter().all(|&port| usize::from(port) < WAYS) => {
                self.scatter(batch, ports);
            }
            _ => batch.distribute(ports, |port, run| self.push_run(port, run)),
        }
    }

    /// Distributes a batch whose packets go by few ports in no order to speak of.
    fn scatter(&mut self, batch: &mut Batch, ports: &[u16]) {
        let mut ways: [Option<Batch>; WAYS] = [const { None }; WAYS];
        for (packet, &port) in batch.drain().zip(ports) {
            match ways.get_mut(usize::from(port)) {
                // Each has room for the whole batch.
                Some(Some(way)) => drop(way.push(packet)),
                Some(way) => {
                    let mut first = self.waiting.take_spare();
                    drop(first.push(packet));
                    *way = Some(first);
                }
                // There are no such ports.
                None => {}
            }
        }
        for (port, way) in ways.into_iter().enumerate() {
            if let Some(mut way) = way {
                self.push_batch(port, &mut way);
                self.waiting.give_spare(way);
            }
        }
    }

    /// The port for [`route_by`](Self::route_by) that drops packets for a reason.
    #[inline]
    pub const fn port_to_drop(reason: Reason) -> u16 {
        DROPPED_FOR + reason as u16
    }

    fn push_run(&mut self, port: u16, run: &mut Drain<'_>) {
        let n = run.len();
        match self.target(port.into()) {
            Some(frame) => {
                self.here().sent.add(n as u64);
                run.for_each(|packet| self.waiting.add(frame, packet));
            }
            None => {
                self.dropped(n, reason_to_drop(port));
                run.for_each(drop);
            }
        }
    }

    /// Fills `batch`, which must be empty, with up to `max` packets from pull input `port`.
    /// Returns how many came.
    pub fn pull(&mut self, port: usize, max: usize, batch: &mut Batch) -> usize {
        debug_assert!(batch.is_empty());
        let first = self.wiring.first_input[self.running.element] as usize;
        let end = self.wiring.first_input[self.running.element + 1] as usize;
        let source = self.wiring.inputs[first..end].get(port).copied();
        let Some((element, output)) = source.filter(|source| source.0 != NOWHERE) else {
            return 0;
        };
        let max = max.min(Batch::CAPACITY);
        let element = element as usize;
        // An element that pulls from itself, around a loop, finds nothing.
        let Some(mut node) = self.nodes[element].take() else { return 0 };
        self.charge();
        let puller = self.enter(element, 0);
        node.pull(self, output as usize, max, batch);
        self.nodes[element] = Some(node);
        let n = batch.len();
        self.here().sent.add(n as u64);
        self.leave(puller);
        if n > 0 {
            self.here().received.add(n as u64);
            self.here().batches.add(1);
        }
        n
    }

    /// Drops a packet and counts the reason. Returns `None`, so that
    /// [`simple_action`](crate::Element::simple_action) can end with it.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: Reason) -> Option<Packet> {
        std::mem::drop(packet);
        self.here().add_drops(reason, 1);
        None
    }

    /// Drops all packets of a batch and counts the reason.
    #[inline]
    pub fn drop_batch(&mut self, batch: &mut Batch, reason: Reason) {
        self.here().add_drops(reason, batch.len() as u64);
        batch.clear();
    }

    /// Counts drops of packets that the element has freed itself.
    #[inline]
    pub fn dropped(&mut self, n: usize, reason: Reason) {
        self.here().add_drops(reason, n as u64);
    }

    /// Counts packets that the element made or a device brought.
    #[inline]
    pub fn created(&mut self, n: usize) {
        self.here().created.add(n as u64);
    }

    /// Counts packets that left the graph as they should: sent by a device, written to a file.
    #[inline]
    pub fn consumed(&mut self, n: usize) {
        self.here().consumed.add(n as u64);
    }

    /// An empty batch; give it back with [`give_batch`](Self::give_batch).
    #[inline]
    pub fn take_batch(&mut self) -> Batch {
        self.waiting.take_spare()
    }

    /// Takes back a batch; what is left in it is dropped as unclaimed.
    #[inline]
    pub fn give_batch(&mut self, mut batch: Batch) {
        if !batch.is_empty() {
            self.drop_batch(&mut batch, Reason::Unclaimed);
        }
        self.waiting.give_spare(batch);
    }
}

/// Who, where and when.
impl Context {
    /// The thread, counted from 0.
    #[inline]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Who this is among all contexts of the process.
    #[inline]
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The time when this round of the thread's loop began. It is told by the processor's time stamp counter,
    /// where that is steady, and is within a microsecond of the clock's.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The time, read afresh.
    pub fn refresh_now(&mut self) -> Timestamp {
        self.set_now(self.router.clock().now());
        self.now
    }

    /// The index of the element that runs.
    #[inline]
    pub fn element(&self) -> usize {
        self.running.element
    }

    /// Which of the element's tasks or timers runs.
    pub fn index(&self) -> usize {
        self.running.index
    }

    /// How many outputs the element has.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.running.outputs
    }

    /// Whether push output `port` is connected.
    #[inline]
    pub fn is_connected(&self, port: usize) -> bool {
        self.target(port).is_some()
    }

    /// The router: handlers, other elements, services.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// This thread's source of random numbers (seeded by RandomSeed, or by the system).
    #[inline]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    #[inline]
    fn target(&self, port: usize) -> Option<u32> {
        if port >= self.running.outputs {
            return None;
        }
        let frame = self.wiring.outputs[self.running.first_output + port];
        (frame != NOWHERE).then_some(frame)
    }

    #[inline]
    fn here(&self) -> &NodeStats {
        &self.stats[self.running.element]
    }
}

/// Ports below this one are scattered to packet by packet.
const WAYS: usize = 16;

/// Ports from here on are none, but reasons to drop.
const DROPPED_FOR: u16 = 0xff00;

/// Why packets for a port that leads nowhere are dropped.
fn reason_to_drop(port: u16) -> Reason {
    let reason = port.checked_sub(DROPPED_FOR).and_then(|at| Reason::ALL.get(usize::from(at)));
    reason.copied().unwrap_or(Reason::Unconnected)
}

/// One round of the thread's loop, in parts.
impl Context {
    /// Runs each scheduled task once, and what it sent. Returns whether one did anything.
    pub(super) fn run_tasks(&mut self) -> bool {
        let mut worked = false;
        self.begin_round();
        if self.waker.has_moves() || !self.leaving.is_empty() {
            worked |= self.move_tasks();
        }
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            if !task.is_scheduled() {
                continue;
            }
            task.begin();
            let (element, index) = (task.element(), task.index());
            let start = self.mark;
            worked |= self.run_node(element, index, |node, cx| node.run_task(cx));
            self.run_waiting();
            let cycles = self.mark.wrapping_sub(start).wrapping_mul(self.rounds.weight());
            self.tasks[at].add_cycles(cycles);
        }
        self.rounds.note(worked);
        worked
    }

    /// Looks at the time. What was between the last round's elements and this moment is no element's.
    #[inline]
    fn begin_round(&mut self) {
        let cycle = crate::cycles::now();
        let idle = cycle.wrapping_sub(self.mark).wrapping_mul(self.rounds.weight());
        self.here().cycles.add(idle);
        self.mark = cycle;
        self.rounds.begin();
        let now = self.rounds.time(cycle, self.router.clock());
        self.set_now(now);
    }

    /// Sets the time, which does not go back: the clock and the counter may be a little apart.
    #[inline]
    fn set_now(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Makes the state of elements anew, in memory near the running thread. Only before the first round.
    pub(super) fn renew_nodes(&mut self) {
        for (id, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.is_some()) {
            *node = self.router.instance_of(id);
        }
    }

    /// A device ended the thread's sleep.
    pub(super) fn woken_by_device(&mut self) {
        self.woken = Some(self.router.clock().now());
    }

    /// Counts how long the first packet since the sleep has been here, if its device said when it came.
    #[cold]
    fn note_arrival(&mut self, batch: &Batch) {
        let (Some(woken), Some(packet)) = (self.woken.take(), batch.first()) else { return };
        let arrival = packet.timestamp();
        if !arrival.is_zero() && arrival < woken {
            let waited = self.router.clock().now().as_nanos().saturating_sub(arrival.as_nanos());
            self.waker.note_arrival(waited.unsigned_abs());
        }
    }

    /// Hands tasks over that other threads shall run, and takes those that come. Returns whether one left.
    #[cold]
    fn move_tasks(&mut self) -> bool {
        for order in self.waker.take_moves() {
            match order {
                Move::Here(task) => self.tasks.push(task),
                Move::Away(task, to) => self.part_with(task, to),
            }
        }
        let before = self.leaving.len();
        let now = self.handed_over();
        for Leaving { task, to, .. } in self.leaving.extract_if(.., |one| one.is_ready(&now)) {
            task.set_home(to);
            if let Some(there) = task.waker_of(to) {
                there.send(Move::Here(task.clone()));
            }
        }
        self.leaving.len() < before
    }

    /// Takes a task off the thread, to be handed over to another one.
    fn part_with(&mut self, task: Task, to: usize) {
        if let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.task.is(&task)) {
            leaving.to = to;
        } else if let Some(at) = self.tasks.iter().position(|own| own.is(&task)) {
            self.tasks.remove(at);
            let handed_over = self.handed_over();
            self.leaving.push(Leaving { task, to, handed_over });
        } else if let Some(there) = task.waker_of(task.home()) {
            // It is on its way to the thread that is to hand it over.
            there.send(Move::Away(task.clone(), to));
        }
    }

    /// For each element what this thread has handed over to others by it.
    fn handed_over(&self) -> Vec<Vec<(u64, u64)>> {
        let rings_of = |node: &Option<Box<dyn Node>>| {
            let mut rings = Vec::new();
            if let Some(node) = node {
                node.handed_over(self.thread, &mut rings);
            }
            rings
        };
        self.nodes.iter().map(rings_of).collect()
    }

    /// Whether a task waits to be handed over.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Runs the timers that have expired, and what they sent. Returns whether there were any.
    pub(super) fn run_timers(&mut self) -> bool {
        let mut ran = false;
        // Timers that expire while these run wait for the next round: tasks have their turn.
        let now = self.now;
        while let Some(timer) = self.timers.pop(now) {
            ran = true;
            self.charge();
            self.run_node(timer.element(), timer.index(), |node, cx| node.run_timer(cx));
            self.run_waiting();
        }
        ran
    }

    /// Asks the element that drives the router whether to go on.
    pub(super) fn stop_requested(&mut self, driver: usize) -> bool {
        self.charge();
        let go_on = self.run_node(driver, 0, |node, cx| node.stop_requested(cx));
        self.run_waiting();
        go_on
    }

    /// When the next timer expires.
    pub(super) fn next_timer(&mut self) -> Option<Timestamp> {
        self.timers.next()
    }

    pub(super) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(super) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        self.timers.inbox()
    }

    /// Drops what still waits when the router has stopped.
    pub(super) fn drop_waiting(&mut self) {
        self.share_cycles_out();
        while let Some((frame, mut batch)) = self.waiting.next() {
            let element = self.wiring.frames[frame as usize].0 as usize;
            let stats = &self.stats[element];
            stats.received.add(batch.len() as u64);
            stats.add_drops(Reason::Stopped, batch.len() as u64);
            batch.clear();
        }
    }

    fn run_node<R: Default>(
        &mut self,
        element: usize,
        index: usize,
        run: impl FnOnce(&mut Box<dyn Node>, &mut Self) -> R,
    ) -> R {
        let Some(mut node) = self.nodes[element].take() else { return R::default() };
        let before = self.enter(element, index);
        let result = run(&mut node, self);
        self.leave(before);
        self.nodes[element] = Some(node);
        result
    }

    /// Runs the inputs at which packets wait until there are none, or the router is halted.
    fn run_waiting(&mut self) {
        const LOOK_UP: u32 = 1 << 14;
        let mut runs: u32 = 0;
        while let Some((frame, batch)) = self.waiting.next() {
            self.run_frame(frame as usize, batch);
            runs = runs.wrapping_add(1);
            if runs.is_multiple_of(LOOK_UP) && self.router.is_halted() {
                // Packets that run in a circle do not keep the program from stopping.
                return;
            }
        }
    }

    #[inline]
    fn run_frame(&mut self, frame: usize, mut batch: Batch) {
        if self.run_chain(frame, &mut batch) {
            return self.waiting.give_spare(batch);
        }
        let (element, port) = self.wiring.frames[frame];
        let element = element as usize;
        let Some(mut node) = self.nodes[element].take() else {
            // The plan makes an instance of each element that a thread can reach.
            self.stats[element].received.add(batch.len() as u64);
            self.stats[element].add_drops(Reason::Unclaimed, batch.len() as u64);
            batch.clear();
            return self.waiting.give_spare(batch);
        };
        let before = self.enter(element, 0);
        let here = self.here();
        here.received.add(batch.len() as u64);
        here.batches.add(1);
        node.push(self, port as usize, &mut batch);
        self.nodes[element] = Some(node);
        self.give_batch(batch);
        self.leave(before);
    }

    /// Takes a batch through the chain that begins at `frame`; false if there is none for it.
    #[inline]
    fn run_chain(&mut self, frame: usize, batch: &mut Batch) -> bool {
        let Some(mut chain) = self.chains[frame].take() else { return false };
        let takes = chain.takes(self);
        if takes {
            chain.run(self, batch);
            if self.counts_cycles() {
                let now = crate::cycles::now();
                let cycles = now.wrapping_sub(self.mark).wrapping_mul(self.rounds.weight());
                chain.add_cycles(cycles);
                self.mark = now;
            }
        }
        self.chains[frame] = Some(chain);
        takes
    }

    /// Whether the cycles of this round are counted.
    #[inline]
    pub(super) fn counts_cycles(&self) -> bool {
        COUNTED && self.rounds.weight() != 0
    }

    /// Shares the cycles of all chains out among their elements, for who reads them.
    pub(super) fn share_cycles_out(&mut self) {
        for frame in 0..self.chains.len() {
            if let Some(mut chain) = self.chains[frame].take() {
                chain.share_out(self);
                self.chains[frame] = Some(chain);
            }
        }
    }

    /// Runs `f` as `element`, to which what it sends and drops is counted; its cycles are not.
    #[inline]
    pub(crate) fn run_as<R>(&mut self, element: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter(element, 0);
        let result = f(self);
        self.running = before;
        result
    }

    /// Makes other frames those inside the chain that runs.
    pub(super) fn swap_inside(&mut self, inside: &mut Vec<(usize, u64)>) {
        std::mem::swap(&mut self.inside, inside);
    }

    /// Whether packets have been sent to the middle of the chain that runs.
    pub(crate) fn has_waiting_inside(&self) -> bool {
        self.is_pending(&self.inside)
    }

    /// Whether packets wait at one of the frames that are given as words of bits.
    #[inline]
    pub(super) fn is_pending(&self, frames: &[(usize, u64)]) -> bool {
        self.waiting.any_pending(frames)
    }

    pub(super) fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    #[inline]
    pub(super) fn stats_of(&self, element: usize) -> &NodeStats {
        &self.stats[element]
    }

    /// Makes `element` the running one; returns the one before. Cycles since the last
    /// [`charge`](Self::charge) go to `element`.
    #[inline]
    fn enter(&mut self, element: usize, index: usize) -> Running {
        let first = self.wiring.first_output[element] as usize;
        let end = self.wiring.first_output[element + 1] as usize;
        let running = Running { element, index, first_output: first, outputs: end - first };
        std::mem::replace(&mut self.running, running)
    }

    #[inline]
    fn leave(&mut self, before: Running) {
        self.charge();
        self.running = before;
    }

    /// Adds the cycles since the last change of element to the one that runs, in rounds that are counted.
    #[inline]
    fn charge(&mut self) {
        if !self.counts_cycles() {
            return;
        }
        let weight = self.rounds.weight();
        let now = crate::cycles::now();
        self.here().cycles.add(now.wrapping_sub(self.mark).wrapping_mul(weight));
        self.mark = now;
    }
}

/// What a [`Context`] is made of.
pub(crate) struct Parts {
    pub(crate) thread: usize,
    pub(crate) router: Arc<Router>,
    pub(crate) stats: Arc<[NodeStats]>,
    pub(crate) nodes: Vec<Option<Box<dyn Node>>>,
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) chains: Vec<Option<Box<Chain>>>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) seed: u64,
}

impl From<Parts> for Context {
    fn from(parts: Parts) -> Self {
        let Parts { thread, router, stats, nodes, wiring, chains, tasks, waker, seed } = parts;
        Self {
            thread,
            identity: Identity::new(),
            now: router.clock().now(),
            rounds: Rounds::new(),
            woken: None,
            router,
            stats,
            running: Running { element: nodes.len(), ..Running::default() },
            mark: crate::cycles::now(),
            waiting: Waiting::new(wiring.frames.len(), wiring.order),
            nodes,
            wiring,
            chains,
            inside: Vec::new(),
            tasks,
            leaving: Vec::new(),
            timers: TimerQueue::default(),
            waker,
            random: fastrand::Rng::with_seed(seed),
        }
    }
}
