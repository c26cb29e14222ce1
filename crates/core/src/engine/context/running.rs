//! What the engine does with a context around the elements' work: time, instances, cycles.

use std::time::{Duration, Instant};

use super::{Context, Running};
use crate::drops::Reason;
use crate::engine::dispatch::{Order, Waiting};
use crate::engine::node::Node;
use crate::memory::Batch;
use crate::phase::Phase;
use crate::stats::{COUNTED, NodeStats};
use crate::time::Timestamp;

impl Context {
    /// Reads the time. The time between the last round's elements and this moment belongs to no element.
    #[inline]
    pub(crate) fn begin_round(&mut self) {
        self.seat.begin_round();
        self.heed_order();
        let cycle = crate::cycles::now();
        let idle = cycle.wrapping_sub(self.mark).wrapping_mul(self.rounds.weight());
        self.here().cycles.add(idle);
        self.mark = cycle;
        self.rounds.begin();
        let now = self.rounds.time(cycle, self.router.clock());
        self.set_now(now);
    }

    /// Runs inputs in the order that the router asks for.
    #[inline(always)]
    pub(crate) fn heed_order(&mut self) {
        let order = match self.router.goes_singly() {
            true => Order::PacketByPacket,
            false => Order::Merged,
        };
        if !self.waiting.has_order(order) {
            self.waiting.set_order(order);
        }
    }

    /// The tasks of the round have run, and whether one did anything.
    #[inline]
    pub(crate) fn note_work(&mut self, worked: bool) {
        self.rounds.note(worked);
    }

    /// The next round is measured, too, however busy the thread is.
    pub(crate) fn measure_round(&mut self) {
        self.rounds.note(false);
    }

    /// The start of the running element's time, in cycles.
    #[inline]
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// Cycles since `start`, as they count in this round.
    #[inline]
    pub(crate) fn cycles_since(&self, start: u64) -> u64 {
        self.mark.wrapping_sub(start).wrapping_mul(self.rounds.weight())
    }

    /// Cycles since the last change of element, which are no element's yet.
    #[inline]
    pub(crate) fn take_cycles(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.mark, crate::cycles::now());
        self.cycles_since(before)
    }

    /// The first thread looks at requests to stop, before its round.
    pub(crate) fn begin_stop(&mut self) {
        self.seat.begin_round();
        self.charge();
    }

    /// No element runs for a while: the thread sleeps, or it is another context's turn.
    pub(crate) fn leave_round(&mut self) {
        self.seat.leave();
    }

    /// Elements begin to finish their packets in flight, and may take until then.
    pub(crate) fn begin_drain(&mut self, until: Instant) {
        self.drains_until.set(Some(until));
    }

    /// Records that a device ended the thread's sleep.
    pub(crate) fn woken_by_device(&mut self) {
        self.woken = Some(self.router.clock().now());
    }

    pub(crate) fn nodes(&self) -> &[Option<Box<dyn Node>>] {
        &self.nodes
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Option<Box<dyn Node>>] {
        &mut self.nodes
    }

    /// Creates the elements' state again, in memory near the running thread. Only before the first round.
    pub(crate) fn renew_nodes(&mut self) {
        for (id, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.is_some()) {
            *node = self.source.node(id);
        }
    }

    /// Sets the time. It does not go back, although the clock and the counter may differ slightly.
    #[inline]
    pub(super) fn set_now(&mut self, now: Timestamp) {
        self.moment.now = self.moment.now.max(now);
    }

    /// Counts how long ago the first packet since the sleep arrived, if its device recorded that.
    #[cold]
    pub(super) fn note_arrival(&mut self, batch: &Batch) {
        let (Some(woken), Some(packet)) = (self.woken.take(), batch.first()) else { return };
        let arrival = packet.timestamp();
        if !arrival.is_zero() && arrival < woken {
            let waited = self.router.clock().now().as_nanos().saturating_sub(arrival.as_nanos());
            self.router.wakers()[self.thread()].note_arrival(waited.unsigned_abs());
        }
    }

    /// Runs an instance, unless it runs already or this thread has none.
    pub(crate) fn run_node<R: Default>(
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

    /// Runs a task of an element. Returns whether it did any work; if not, its cycles are polling.
    #[inline]
    pub(crate) fn run_task(&mut self, element: usize, index: usize) -> bool {
        let Some(mut node) = self.nodes[element].take() else { return false };
        let before = self.enter(element, index);
        let worked = node.run_task(self);
        if self.counts_cycles() {
            let cycles = self.take_cycles();
            self.here().spend(cycles, worked);
        }
        self.running = before;
        self.nodes[element] = Some(node);
        worked
    }

    /// Runs the element at whose input a batch waits.
    #[inline]
    pub(crate) fn run_frame(&mut self, frame: usize, mut batch: Batch) {
        let (element, port) = self.wiring.frames[frame];
        let element = element as usize;
        let Some(mut node) = self.nodes[element].take() else {
            // The plan makes an instance of each element that a thread can reach.
            return self.lose(frame, batch, Reason::Unclaimed);
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

    /// Drops a batch that waits at an input.
    #[cold]
    pub(crate) fn lose(&mut self, frame: usize, mut batch: Batch, reason: Reason) {
        let element = self.wiring.frames[frame].0 as usize;
        self.show_drops(element, reason, &batch);
        let stats = &self.stats[element];
        stats.received.add(batch.len() as u64);
        stats.add_drops(reason, batch.len() as u64);
        batch.clear();
        self.waiting.give_spare(batch);
    }

    /// Whether a thread that waits in the middle of its work, for example for room in a device, must give up. After an
    /// orderly stop it may wait for half a second more in the round that the stop interrupts, and until the time limit
    /// while elements [finish](crate::Element::drain) their packets in flight.
    pub fn gives_up(&self) -> bool {
        const GRACE: Duration = Duration::from_millis(500);
        match self.router.phase() {
            Phase::Running => false,
            Phase::Draining => {
                let now = Instant::now();
                let until = self.drains_until.get().unwrap_or(now + GRACE);
                self.drains_until.set(Some(until));
                now >= until
            }
            Phase::Ending | Phase::Halted => true,
        }
    }

    /// Whether the cycles of this round are measured.
    #[inline]
    pub(crate) fn counts_cycles(&self) -> bool {
        COUNTED && self.rounds.weight() != 0
    }

    /// Runs `f` as `element`: packets that it sends and drops are counted there, and it sends to that
    /// element's outputs. Its cycles are not counted there.
    #[inline]
    pub fn run_as<R>(&mut self, element: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter(element, 0);
        let result = f(self);
        self.running = before;
        result
    }

    /// [`run_as`](Self::run_as) for a step of the program, which is using the thread's state for `element`. A
    /// pull from the element meanwhile, around a loop, finds it running.
    #[inline]
    pub(crate) fn run_step<R>(&mut self, element: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let node = self.nodes[element].take();
        let result = self.run_as(element, f);
        self.nodes[element] = node;
        result
    }

    /// Whether packets wait at one of the frames, given as words of bits.
    #[inline]
    pub(crate) fn is_pending(&self, frames: &[(usize, u64)]) -> bool {
        self.waiting.any_pending(frames)
    }

    pub(crate) fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    #[inline]
    pub(crate) fn stats_of(&self, element: usize) -> &NodeStats {
        &self.stats[element]
    }

    /// Makes `element` the running one; returns the one before. Cycles since the last
    /// [`charge`](Self::charge) count for `element`.
    #[inline]
    pub(super) fn enter(&mut self, element: usize, index: usize) -> Running {
        let first = self.wiring.first_output[element] as usize;
        let end = self.wiring.first_output[element + 1] as usize;
        let running = Running { element, index, first_output: first, outputs: end - first };
        std::mem::replace(&mut self.running, running)
    }

    #[inline]
    pub(super) fn leave(&mut self, before: Running) {
        self.charge();
        self.running = before;
    }

    /// Adds the cycles since the last change of element to the running one, in rounds that are measured.
    #[inline]
    pub(crate) fn charge(&mut self) {
        if !self.counts_cycles() {
            return;
        }
        let weight = self.rounds.weight();
        let now = crate::cycles::now();
        self.here().cycles.add(now.wrapping_sub(self.mark).wrapping_mul(weight));
        self.mark = now;
    }
}
