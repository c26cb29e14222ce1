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
use crate::phase::Phase;
use crate::stats::{COUNTED, NodeStats};
use crate::time::Timestamp;

/// A task that is to be handed over when all that this thread had handed over to others before is out of its
/// rings: what the task hands over on its new thread would overtake it.
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
    /// Runs each scheduled task once, and what it sent. Returns whether one did anything.
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

    /// Looks at the time. What was between the last round's elements and this moment is no element's.
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

    /// Sets the time, which does not go back: the clock and the counter may be a little apart.
    #[inline]
    pub(super) fn set_now(&mut self, now: Timestamp) {
        self.moment.now = self.moment.now.max(now);
    }

    /// Makes the state of elements anew, in memory near the running thread. Only before the first round.
    pub(in crate::engine) fn renew_nodes(&mut self) {
        for (id, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.is_some()) {
            *node = self.router.instance_of(id);
        }
        if let Some(program) = &mut self.program {
            program.link(&mut self.nodes);
        }
    }

    /// A device ended the thread's sleep.
    pub(in crate::engine) fn woken_by_device(&mut self) {
        self.woken = Some(self.router.clock().now());
    }

    /// Counts how long the first packet since the sleep has been here, if its device said when it came.
    #[cold]
    pub(super) fn note_arrival(&mut self, batch: &Batch) {
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
                node.handed_over(self.thread(), &mut rings);
            }
            rings
        };
        self.nodes.iter().map(rings_of).collect()
    }

    /// No element runs for a while: the thread sleeps, or another context's turn has come.
    pub(in crate::engine) fn leave_round(&mut self) {
        self.seat.leave();
    }

    /// Whether a task waits to be handed over.
    pub(in crate::engine) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Runs the timers that have expired, and what they sent. Returns whether there were any.
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

    /// Asks the element that drives the router whether to go on.
    pub(in crate::engine) fn stop_requested(&mut self, driver: usize) -> bool {
        self.seat.begin_round();
        self.charge();
        let go_on = self.run_node(driver, 0, |node, cx| node.stop_requested(cx));
        self.run_waiting();
        go_on
    }

    /// Has each element go on to finish what it has under way, and runs what it sent. Returns whether one had
    /// anything left.
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

    /// Drops what still waits when the router has stopped.
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

    /// Runs the inputs at which packets wait until there are none, or the thread is to give up. Returns whether
    /// there were any.
    fn run_waiting(&mut self) -> bool {
        const LOOK_UP: u32 = 1 << 14;
        let mut runs: u32 = 0;
        while let Some((frame, batch)) = self.waiting.next() {
            self.run_frame(frame as usize, batch);
            runs = runs.wrapping_add(1);
            if runs.is_multiple_of(LOOK_UP) && self.gives_up() {
                // Packets that run in a circle do not keep the program from stopping.
                break;
            }
        }
        runs > 0
    }

    /// Whether a thread that waits in the middle of its work, for room in a device for example, is to give up. While
    /// elements [finish](crate::Element::drain) what they have under way it may wait, until that has taken too long.
    pub fn gives_up(&self) -> bool {
        match self.router.phase() {
            Phase::Running => false,
            Phase::Draining => self.drains_until.is_none_or(|until| Instant::now() >= until),
            Phase::Ending | Phase::Halted => true,
        }
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

    /// Takes a batch through the steps from the one that is entered at `frame`; false if there is none, or the
    /// elements are to run one by one.
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

    /// Whether the cycles of this round are counted.
    #[inline]
    pub(in crate::engine) fn counts_cycles(&self) -> bool {
        COUNTED && self.rounds.weight() != 0
    }

    /// Shares the cycles of the program out among its elements, for who reads them.
    pub(in crate::engine) fn share_cycles_out(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.share_all_out(self);
            self.program = Some(program);
        }
    }

    /// Runs `f` as `element`, to which what it sends and drops is counted, and by whose outputs it sends; its
    /// cycles are not counted there.
    #[inline]
    pub fn run_as<R>(&mut self, element: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter(element, 0);
        let result = f(self);
        self.running = before;
        result
    }

    /// [`run_as`](Self::run_as) for a step of the program, which is at work on what the thread keeps for `element`: who
    /// pulls from it meanwhile, around a loop, finds that it runs.
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

    /// Whether packets wait at one of the frames that are given as words of bits.
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
    /// [`charge`](Self::charge) go to `element`.
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

    /// Adds the cycles since the last change of element to the one that runs, in rounds that are counted.
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
