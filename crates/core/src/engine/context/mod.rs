//! What a running element acts through: its outputs and inputs, drops, the time.

mod running;
mod watched;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use super::biased::{Identified, Identity};
use super::dispatch::Waiting;
use super::node::{Node, Nodes};
use super::published::Seat;
use super::round::Rounds;
use super::taps::Taps;
use crate::drops::Reason;
use crate::graph::{NOWHERE, TAPPED, Wiring};
use crate::memory::{Batch, Drain, Packet, Ports};
use crate::moment::{InRound, Moment, sealed};
use crate::router::Router;
use crate::stats::NodeStats;
use crate::time::Timestamp;

/// One thread's state, as seen by the element that it runs.
///
/// An element must send each packet that it got ([`push`](Self::push), [`push_batch`](Self::push_batch)),
/// drop it with a reason ([`drop`](Self::drop)), hold it ([`held`](crate::Element::held)) or consume it
/// ([`consumed`](Self::consumed)), so that every packet is accounted for.
#[repr(align(128))]
pub struct Context {
    /// The thread, the time, random numbers.
    pub(crate) moment: Moment,
    identity: Identity,
    /// Its registration as a reader of published values.
    seat: Seat,
    router: Arc<Router>,
    /// One per element; the last one belongs to the engine.
    stats: Arc<[NodeStats]>,
    /// The same, to count drops in; empty while something is watched, so that the check of the bounds, which there is
    /// in any case, leads to whoever watches.
    counted: Arc<[NodeStats]>,
    taps: Option<Arc<Taps>>,
    rounds: Rounds,
    /// When a device ended the thread's sleep, until the first packets are sent on.
    woken: Option<Timestamp>,
    /// The running element, which of its tasks or timers runs, and its outputs and inputs.
    running: Running,
    /// When the time of the running element began to count, in cycles.
    mark: u64,
    waiting: Waiting,
    /// One instance of each element that this thread reaches; absent while it runs.
    nodes: Vec<Option<Box<dyn Node>>>,
    /// How often running elements have been entered again since a pull returned.
    again: usize,
    wiring: Arc<Wiring>,
    /// Where instances come from.
    source: Arc<dyn Nodes>,
    /// The time limit for elements to finish their packets in flight, once they begin to.
    drains_until: Cell<Option<Instant>>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Running {
    element: usize,
    index: usize,
    first_output: usize,
    outputs: usize,
}

/// Sending, pulling, dropping.
impl Context {
    /// Sends a packet to push output `port`; drops it when the port is not connected.
    #[inline]
    pub fn push(&mut self, port: usize, packet: Packet) {
        self.push_or_drop(port, packet, Reason::Unconnected);
    }

    /// Sends a packet to push output `port`, or drops it for `reason` when the port is not connected: for
    /// optional error outputs.
    #[inline]
    pub fn push_or_drop(&mut self, port: usize, packet: Packet, reason: Reason) {
        match self.target(port) {
            Some(frame) => {
                self.here().sent.add(1);
                self.waiting.add(frame, packet);
            }
            None => match self.unwatched() {
                Some(here) => {
                    std::mem::drop(packet);
                    here.add_drops(reason, 1);
                }
                None => self.push_through(port, packet, reason),
            },
        }
    }

    /// Sends all packets of a batch to push output `port`; drops them when the port is not connected. The
    /// batch is empty afterwards.
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
            None => self.turn_away(port, batch, Reason::Unconnected),
        }
    }

    /// Drops a batch for an output that is not connected.
    #[inline]
    fn turn_away(&mut self, port: usize, batch: &mut Batch, reason: Reason) {
        match self.unwatched() {
            Some(here) => {
                here.add_drops(reason, batch.len() as u64);
                batch.clear();
            }
            None => self.push_batch_through(port, batch, reason),
        }
    }

    /// Distributes a batch over push outputs: `choose` returns each packet's port. Packets for the same port
    /// keep their order. Packets for ports that are not connected are dropped.
    #[inline]
    pub fn route(&mut self, batch: &mut Batch, mut choose: impl FnMut(&mut Packet) -> usize) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        batch.classify(&mut ports, |packet| u16::try_from(choose(packet)).unwrap_or(u16::MAX));
        let len = batch.len();
        self.route_by(batch, &ports[..len]);
    }

    /// Distributes a batch as [`route`](Self::route) does; drops the packets for which `choose` returns a
    /// reason.
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
                    None => self.turn_away((*first).into(), batch, reason_to_drop(*first)),
                }
            }
            _ if self.waiting.merges() && ports.iter().all(|&port| usize::from(port) < WAYS) => {
                self.scatter(batch, ports);
            }
            _ => batch.distribute(ports, |port, run| self.push_run(port, run)),
        }
    }

    /// Distributes a batch whose packets go to few ports, in a mixed order. Ports that lead to the same input
    /// share a batch, so that their packets keep their order.
    fn scatter(&mut self, batch: &mut Batch, ports: &[u16]) {
        if self.unwatched().is_none() {
            // Each packet is shown at its own output.
            return batch.distribute(ports, |port, run| self.push_run(port, run));
        }
        let mut ways: [Option<Batch>; WAYS] = [const { None }; WAYS];
        let mut way_of = [usize::MAX; WAYS];
        for (packet, &port) in batch.drain().zip(ports) {
            let port = usize::from(port) % WAYS;
            if way_of[port] == usize::MAX {
                let target = self.target(port);
                let same = |&other: &usize| ways[other].is_some() && self.target(other) == target;
                way_of[port] = (0..WAYS).find(same).unwrap_or(port);
            }
            let way = ways[way_of[port]].get_or_insert_with(|| self.waiting.take_spare());
            // It has room for the whole batch.
            let _ = way.push(packet);
        }
        for (port, way) in ways.into_iter().enumerate() {
            if let Some(mut way) = way {
                self.push_batch(port, &mut way);
                self.waiting.give_spare(way);
            }
        }
    }

    /// The port for [`route_by`](Self::route_by) that drops packets for this reason.
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
            None => match self.unwatched() {
                Some(here) => {
                    here.add_drops(reason_to_drop(port), n as u64);
                    run.for_each(drop);
                }
                None => run.for_each(|packet| {
                    self.push_through(port.into(), packet, reason_to_drop(port));
                }),
            },
        }
    }

    /// Fills `batch`, which must be empty, with up to `max` packets from pull input `port`. Returns the
    /// number of packets.
    pub fn pull(&mut self, port: usize, max: usize, batch: &mut Batch) -> usize {
        debug_assert!(batch.is_empty());
        if max > 1 && self.waiting.goes_singly() {
            return self.pull_singly(port, max, batch);
        }
        let first = self.wiring.first_input[self.running.element] as usize;
        let end = self.wiring.first_input[self.running.element + 1] as usize;
        let Some(&(element, output)) = self.wiring.inputs[first..end].get(port) else {
            return 0;
        };
        if element >= TAPPED {
            return self.pull_through(element, max, batch);
        }
        self.pull_from(element as usize, output as usize, max, batch)
    }

    /// Fills a batch from an output.
    #[inline(always)]
    fn pull_from(&mut self, element: usize, output: usize, max: usize, batch: &mut Batch) -> usize {
        let max = max.min(Batch::CAPACITY);
        // An element that pulls from itself, around a loop, finds nothing as a rule.
        let Some(mut node) = self.nodes[element].take().or_else(|| self.enter_again(element))
        else {
            return 0;
        };
        let before = if self.counts_cycles() { self.take_cycles() } else { 0 };
        let puller = self.enter(element, 0);
        node.pull(self, output, max, batch);
        self.nodes[element] = Some(node);
        let n = batch.len();
        self.here().sent.add(n as u64);
        if self.counts_cycles() {
            let cycles = self.take_cycles();
            self.here().spend(cycles, n > 0);
            self.running = puller;
            self.here().spend(before, n > 0);
        } else {
            self.running = puller;
        }
        self.again = 0;
        if n > 0 {
            self.here().received.add(n as u64);
            self.here().batches.add(1);
        }
        n
    }

    /// Pulls like [`pull`](Self::pull), but each packet goes its whole way before the next one.
    #[cold]
    fn pull_singly(&mut self, port: usize, max: usize, batch: &mut Batch) -> usize {
        let mut one = self.waiting.take_spare();
        for _ in 0..max.min(Batch::CAPACITY) {
            if self.pull(port, 1, &mut one) == 0 {
                break;
            }
            batch.append(&mut one);
        }
        self.waiting.give_spare(one);
        batch.len()
    }

    /// Another instance of a running element, if the class allows it to run twice.
    #[cold]
    fn enter_again(&mut self, element: usize) -> Option<Box<dyn Node>> {
        /// More than any configuration has between a pull and its source; only an endless loop is longer.
        const MOST: usize = 64;
        self.again += 1;
        let again = self.again <= MOST;
        let reentrant = || self.router.member(element).is_some_and(|one| one.class.reentrant);
        (again && reentrant()).then(|| self.source.node(element)).flatten()
    }

    /// Drops a packet and counts the reason. Returns `None`, so that
    /// [`PerPacket::aside`](crate::PerPacket::aside) can end with it.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: Reason) -> Option<Packet> {
        match self.unwatched() {
            Some(here) => {
                std::mem::drop(packet);
                here.add_drops(reason, 1);
            }
            None => self.push_through(usize::MAX, packet, reason),
        }
        None
    }

    /// Drops all packets of a batch and counts the reason.
    #[inline]
    pub fn drop_batch(&mut self, batch: &mut Batch, reason: Reason) {
        self.turn_away(usize::MAX, batch, reason);
    }

    /// Counts drops of packets that the element has already freed.
    #[inline]
    pub fn dropped(&mut self, n: usize, reason: Reason) {
        self.dropped_at(self.running.element, n, reason);
    }

    /// Counts packets that the element made or a device received.
    #[inline]
    pub fn created(&mut self, n: usize) {
        self.here().created.add(n as u64);
    }

    /// Counts packets that left the graph as intended: transmitted by a device, written to a file.
    #[inline]
    pub fn consumed(&mut self, n: usize) {
        self.here().consumed.add(n as u64);
    }

    /// Counts packets that passed another element without the engine: `received` arrived there, in one batch,
    /// and `sent` left it. For code that runs a part of the graph itself (a GPU section), so that every
    /// element in it accounts for its packets.
    #[inline]
    pub fn passed(&mut self, element: usize, received: usize, sent: usize) {
        if let Some(there) = self.stats.get(element).filter(|_| received + sent > 0) {
            there.received.add(received as u64);
            there.batches.add(u64::from(received > 0));
            there.sent.add(sent as u64);
        }
    }

    /// Counts drops by another element that got its packets without the engine ([`passed`](Self::passed));
    /// the packets have been freed.
    #[inline]
    pub fn dropped_at(&mut self, element: usize, n: usize, reason: Reason) {
        match self.counted.get(element) {
            Some(there) => there.add_drops(reason, n as u64),
            None => self.tell_drops(element, reason, n),
        }
    }

    /// An empty batch; return it with [`give_batch`](Self::give_batch).
    #[inline]
    pub fn take_batch(&mut self) -> Batch {
        self.waiting.take_spare()
    }

    /// Returns a batch for reuse; packets left in it are dropped as unclaimed.
    #[inline]
    pub fn give_batch(&mut self, mut batch: Batch) {
        if !batch.is_empty() {
            self.drop_batch(&mut batch, Reason::Unclaimed);
        }
        self.waiting.give_spare(batch);
    }
}

/// Identity, place and time.
impl Context {
    /// The thread, counted from 0.
    #[inline]
    pub fn thread(&self) -> usize {
        self.moment.thread
    }

    /// The time when this round of the thread's loop began. It comes from the processor's time stamp counter,
    /// if that is steady, and is within a microsecond of the clock.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.moment.now
    }

    /// Reads the time again.
    pub fn refresh_now(&mut self) -> Timestamp {
        self.set_now(self.router.clock().now());
        self.moment.now
    }

    /// The index of the running element.
    #[inline]
    pub fn element(&self) -> usize {
        self.running.element
    }

    /// Which of the element's tasks or timers runs.
    pub fn index(&self) -> usize {
        self.running.index
    }

    /// The number of outputs of the element.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.running.outputs
    }

    /// Whether push output `port` is connected.
    #[inline]
    pub fn is_connected(&self, port: usize) -> bool {
        port < self.running.outputs
            && self.wiring.outputs[self.running.first_output + port] != NOWHERE
    }

    /// The router: handlers, other elements, services.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// This thread's source of random numbers (seeded by RandomSeed, or by the system).
    #[inline]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.moment.random
    }

    #[inline]
    fn target(&self, port: usize) -> Option<u32> {
        if port >= self.running.outputs {
            return None;
        }
        let frame = self.wiring.outputs[self.running.first_output + port];
        (frame < TAPPED).then_some(frame)
    }

    /// The counts of the running element, unless something is watched.
    #[inline]
    fn unwatched(&self) -> Option<&NodeStats> {
        self.counted.get(self.running.element)
    }

    #[inline]
    fn here(&self) -> &NodeStats {
        &self.stats[self.running.element]
    }
}

impl InRound for Context {
    #[inline(always)]
    fn thread(&self) -> usize {
        self.moment.thread
    }
}

impl sealed::Sealed for Context {}

impl Identified for Context {
    #[inline(always)]
    fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Batches are scattered packet by packet to ports below this one.
const WAYS: usize = 16;

/// Port numbers from here on are reasons to drop.
const DROPPED_FOR: u16 = 0xff00;

/// Why packets for an unconnected port are dropped.
fn reason_to_drop(port: u16) -> Reason {
    let reason = port.checked_sub(DROPPED_FOR).and_then(|at| Reason::ALL.get(usize::from(at)));
    reason.copied().unwrap_or(Reason::Unconnected)
}

/// The parts of a [`Context`].
pub(crate) struct Parts {
    pub(crate) thread: usize,
    pub(crate) router: Arc<Router>,
    pub(crate) nodes: Vec<Option<Box<dyn Node>>>,
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) source: Arc<dyn Nodes>,
    pub(crate) seed: u64,
}

impl From<Parts> for Context {
    fn from(parts: Parts) -> Self {
        let Parts { thread, router, nodes, wiring, source, seed } = parts;
        let random = fastrand::Rng::with_seed(seed);
        Self {
            moment: Moment { thread, now: router.clock().now(), random },
            identity: Identity::new(),
            seat: Seat::new(),
            rounds: Rounds::new(),
            woken: None,
            stats: router.stats_on(thread).clone(),
            counted: router.stats_on(thread).clone(),
            taps: None,
            router,
            running: Running { element: nodes.len(), ..Running::default() },
            mark: crate::cycles::now(),
            waiting: Waiting::new(wiring.frames.len()),
            nodes,
            again: 0,
            wiring,
            source,
            drains_until: Cell::new(None),
        }
    }
}
