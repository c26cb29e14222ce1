//! One round of the thread's loop, in parts: tasks, timers, inputs with packets.

use std::sync::Arc;
use std::time::Instant;

use super::{Context, Running};
use crate::drops::Reason;
use crate::element::node::Node;
use crate::engine::dispatch::Waiting;
use crate::engine::task::Move;
use crate::engine::timer::Inbox;
use crate::engine::{Task, Waker};
use crate::memory::Batch;
use crate::stats::{COUNTED, NodeStats};
use crate::time::Timestamp;

/// A task waiting to be handed over. It must wait until all packets that this thread put into its rings to
/// others before are out; otherwise packets from the task's new thread would overtake them.
pub(super) struct Leaving {
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

/// One round of the thread's loop, in parts.
impl Context {
    /// Runs each scheduled task once, and the elements downstream of what it sent. Returns whether one did
    /// any work.
    pub(in crate::engine) fn run_tasks(&mut self) -> bool {
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

    /// Reads the time. The time between the last round's elements and this moment belongs to no element.
    #[inline]
    fn begin_round(&mut self) {
        self.seat.begin_round();
        let order = self.router.order();
        if !self.waiting.has_order(order) {
            self.waiting.set_order(order);
        }
        let cycle = crate::cycles::now();
        let idle = cycle.wrapping_sub(self.mark).wrapping_mul(self.rounds.weight());
        self.here().cycles.add(idle);
        self.mark = cycle;
        self.rounds.begin();
        let now = self.rounds.time(cycle, self.router.clock());
        self.set_now(now);
    }

    /// Sets the time. It does not go back, although the clock and the counter may differ slightly.
    #[inline]
    pub(super) fn set_now(&mut self, now: Timestamp) {
        self.moment.now = self.moment.now.max(now);
    }

    /// Creates the elements' state again, in memory near the running thread. Only before the first round.
    pub(in crate::engine) fn renew_nodes(&mut self) {
        for (id, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.is_some()) {
            *node = self.router.instance_of(id);
        }
        if let Some(program) = &mut self.program {
            program.link(&mut self.nodes);
        }
    }

    /// Records that a device ended the thread's sleep.
    pub(in crate::engine) fn woken_by_device(&mut self) {
        self.woken = Some(self.router.clock().now());
    }

    /// Counts how long ago the first packet since the sleep arrived, if its device recorded that.
    #[cold]
    pub(super) fn note_arrival(&mut self, batch: &Batch) {
        let (Some(woken), Some(packet)) = (self.woken.take(), batch.first()) else { return };
        let arrival = packet.timestamp();
        if !arrival.is_zero() && arrival < woken {
            let waited = self.router.clock().now().as_nanos().saturating_sub(arrival.as_nanos());
            self.waker.note_arrival(waited.unsigned_abs());
        }
    }

    /// Hands over tasks that are moving to other threads, and accepts arriving ones. Returns whether one
    /// left.
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

    /// Takes a task off the thread, to hand it over to another one.
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

    /// For each element, the packets that this thread has handed over to others through it.
    fn handed_over(&self) -> Vec<Vec<(u64, u64)>> {
        let rings_of = |node: &Option<Box<dyn Node>>| {
            let mut rings = Vec::new();
            if let Some(node) = node {
                node.handed_over(self.thread(), &mut rings);
            }
            rings
        };
        self.nodes.iter().map(rings_of).collect()
    }

    /// No element runs for a while: the thread sleeps, or it is another context's turn.
    pub(in crate::engine) fn leave_round(&mut self) {
        self.seat.leave();
    }

    /// Whether a task waits to be handed over.
    pub(in crate::engine) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Runs the timers that have expired, and the elements downstream of what they sent. Returns whether
    /// there were any.
    pub(in crate::engine) fn run_timers(&mut self) -> bool {
        let mut ran = false;
        // Timers that expire while these run wait for the next round: tasks have their turn.
        let now = self.now();
        while let Some(timer) = self.timers.pop(now) {
            ran = true;
            self.charge();
            self.run_node(timer.element(), timer.index(), |node, cx| node.run_timer(cx));
            self.run_waiting();
        }
        ran
    }

    /// Asks the element that drives the router whether to continue.
    pub(in crate::engine) fn stop_requested(&mut self, driver: usize) -> bool {
        self.seat.begin_round();
        self.charge();
        let go_on = self.run_node(driver, 0, |node, cx| node.stop_requested(cx));
        self.run_waiting();
        go_on
    }

    /// Makes each element finish its packets in flight, and runs the elements downstream of what it sent.
    /// Returns whether one has any left.
    pub(in crate::engine) fn drain(&mut self, until: Instant) -> bool {
        self.begin_round();
        self.drains_until = Some(until);
        let mut left = false;
        for element in 0..self.nodes.len() {
            left |= self.run_node(element, 0, |node, cx| node.drain(cx));
            left |= self.run_waiting();
        }
        left
    }

    /// When the next timer expires.
    pub(in crate::engine) fn next_timer(&mut self) -> Option<Timestamp> {
        self.timers.next()
    }

    pub(in crate::engine) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(in crate::engine) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        self.timers.inbox()
    }

    /// Drops the packets that still wait after the router has stopped.
    pub(in crate::engine) fn drop_waiting(&mut self) {
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

    /// Runs the inputs at which packets wait until there are none, or the router is halted. Returns whether
    /// there were any.
    fn run_waiting(&mut self) -> bool {
        const LOOK_UP: u32 = 1 << 14;
        let mut runs: u32 = 0;
        while let Some((frame, batch)) = self.waiting.next() {
            self.run_frame(frame as usize, batch);
            runs = runs.wrapping_add(1);
            if runs.is_multiple_of(LOOK_UP) && self.is_to_end() {
                // Packets that run in a circle do not keep the program from stopping.
                break;
            }
        }
        runs > 0
    }

    /// Whether a thread that waits in the middle of its work, for example for room in a device, must give up:
    /// the router [stops](crate::Router::is_stopping). While elements [finish](crate::Element::drain) their
    /// packets in flight, it may continue to wait until the time limit.
    pub fn gives_up(&self) -> bool {
        match self.drains_until {
            Some(_) => self.is_to_end(),
            None => self.router.is_stopping(),
        }
    }

    /// Whether packets must stop where they are.
    fn is_to_end(&self) -> bool {
        let in_time = self.drains_until.is_some_and(|until| Instant::now() < until);
        self.router.is_halted() && !(in_time && self.router.drains())
    }

    #[inline]
    fn run_frame(&mut self, frame: usize, mut batch: Batch) {
        if self.run_program(frame, &mut batch) {
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

    /// Runs a batch through the steps, starting with the one that is entered at `frame`. Returns false if
    /// there is none, or the elements must run one by one.
    #[inline]
    fn run_program(&mut self, frame: usize, batch: &mut Batch) -> bool {
        let Some(mut program) = self.program.take() else { return false };
        let entry = program.entry_at(frame);
        let entry = entry.filter(|&entry| program.takes(entry, self));
        if let Some(entry) = entry {
            program.run(entry, self, batch);
            if self.counts_cycles() {
                let now = crate::cycles::now();
                let cycles = now.wrapping_sub(self.mark).wrapping_mul(self.rounds.weight());
                program.add_cycles(entry, cycles);
                self.mark = now;
            }
        }
        self.program = Some(program);
        entry.is_some()
    }

    /// Whether the cycles of this round are measured.
    #[inline]
    pub(in crate::engine) fn counts_cycles(&self) -> bool {
        COUNTED && self.rounds.weight() != 0
    }

    /// Divides the cycles of the program among its elements, for readers of the counts.
    pub(in crate::engine) fn share_cycles_out(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.share_all_out(self);
            self.program = Some(program);
        }
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
    pub(in crate::engine) fn run_step<R>(
        &mut self,
        element: usize,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let node = self.nodes[element].take();
        let result = self.run_as(element, f);
        self.nodes[element] = node;
        result
    }

    /// Whether packets wait at one of the frames, given as words of bits.
    #[inline]
    pub(in crate::engine) fn is_pending(&self, frames: &[(usize, u64)]) -> bool {
        self.waiting.any_pending(frames)
    }

    pub(in crate::engine) fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    #[inline]
    pub(in crate::engine) fn stats_of(&self, element: usize) -> &NodeStats {
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
    pub(super) fn charge(&mut self) {
        if !self.counts_cycles() {
            return;
        }
        let weight = self.rounds.weight();
        let now = crate::cycles::now();
        self.here().cycles.add(now.wrapping_sub(self.mark).wrapping_mul(weight));
        self.mark = now;
    }
}
