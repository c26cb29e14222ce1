//! One round of the thread's loop, in parts: tasks, timers, inputs with packets.

use std::sync::Arc;
use std::time::Instant;

use crate::drops::Reason;
use crate::engine::{Context, Node};
use crate::memory::Batch;
use crate::program::Program;
use crate::schedule::{Inbox, Move, Task, TimerQueue, Waker};
use crate::time::Timestamp;

/// What one thread runs.
pub(super) struct Worker {
    pub(super) cx: Context,
    /// The program for elements that process packets one by one.
    program: Program,
    tasks: Vec<Task>,
    leaving: Vec<Leaving>,
    timers: TimerQueue,
    waker: Arc<Waker>,
}

/// A task waiting to be handed over. It must wait until all packets that this thread put into its rings to
/// others before are out; otherwise packets from the task's new thread would overtake them.
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

/// One round of the thread's loop, in parts.
impl Worker {
    pub(super) fn new(mut cx: Context, mut program: Program, tasks: Vec<Task>) -> Self {
        program.link(cx.nodes_mut());
        let waker = cx.router().wakers()[cx.thread()].clone();
        let timers = TimerQueue::default();
        Self { cx, program, tasks, leaving: Vec::new(), timers, waker }
    }

    /// Runs each scheduled task once, and the elements downstream of what it sent. Returns whether one did
    /// any work.
    pub(super) fn run_tasks(&mut self) -> bool {
        let mut worked = false;
        self.cx.begin_round();
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
            let start = self.cx.mark();
            worked |= self.cx.run_node(element, index, |node, cx| node.run_task(cx));
            self.run_waiting();
            self.tasks[at].add_cycles(self.cx.cycles_since(start));
        }
        self.cx.note_work(worked);
        worked
    }

    /// Makes the state of elements anew, in memory near the running thread. Only before the first round.
    pub(super) fn renew_nodes(&mut self) {
        self.cx.renew_nodes();
        self.program.link(self.cx.nodes_mut());
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
                node.handed_over(self.cx.thread(), &mut rings);
            }
            rings
        };
        self.cx.nodes().iter().map(rings_of).collect()
    }

    /// Whether a task waits to be handed over.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Runs the timers that have expired, and the elements downstream of what they sent. Returns whether
    /// there were any.
    pub(super) fn run_timers(&mut self) -> bool {
        let mut ran = false;
        // Timers that expire while these run wait for the next round: tasks have their turn.
        let now = self.cx.now();
        while let Some(timer) = self.timers.pop(now) {
            ran = true;
            self.cx.charge();
            self.cx.run_node(timer.element(), timer.index(), |node, cx| node.run_timer(cx));
            self.run_waiting();
        }
        ran
    }

    /// Asks the element that drives the router whether to continue.
    pub(super) fn stop_requested(&mut self, driver: usize) -> bool {
        self.cx.begin_stop();
        let go_on = self.cx.run_node(driver, 0, |node, cx| node.stop_requested(cx));
        self.run_waiting();
        go_on
    }

    /// Makes each element finish its packets in flight, and runs the elements downstream of what it sent.
    /// Returns whether one has any left.
    pub(super) fn drain(&mut self, until: Instant) -> bool {
        self.cx.begin_round();
        self.cx.begin_drain(until);
        let mut left = false;
        for element in 0..self.cx.nodes().len() {
            left |= self.cx.run_node(element, 0, |node, cx| node.drain(cx));
            left |= self.run_waiting();
        }
        left
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

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        self.timers.inbox()
    }

    /// Drops the packets that still wait after the router has stopped.
    pub(super) fn drop_waiting(&mut self) {
        self.share_cycles_out();
        while let Some((frame, batch)) = self.cx.waiting().next() {
            self.cx.lose(frame as usize, batch, Reason::Stopped);
        }
    }

    /// Runs the inputs at which packets wait until there are none, or the thread is to give up. Returns whether
    /// there were any.
    fn run_waiting(&mut self) -> bool {
        const LOOK_UP: u32 = 1 << 14;
        let mut runs: u32 = 0;
        while let Some((frame, batch)) = self.cx.waiting().next() {
            self.run_frame(frame as usize, batch);
            runs = runs.wrapping_add(1);
            if runs.is_multiple_of(LOOK_UP) && self.cx.gives_up() {
                // Packets that run in a circle do not keep the program from stopping.
                break;
            }
        }
        runs > 0
    }

    #[inline]
    fn run_frame(&mut self, frame: usize, mut batch: Batch) {
        match self.run_program(frame, &mut batch) {
            true => self.cx.waiting().give_spare(batch),
            false => self.cx.run_frame(frame, batch),
        }
    }

    /// Runs a batch through the steps, starting with the one that is entered at `frame`. Returns false if
    /// there is none, or the elements must run one by one.
    #[inline]
    fn run_program(&mut self, frame: usize, batch: &mut Batch) -> bool {
        let Self { cx, program, .. } = self;
        let Some(entry) = program.entry_at(frame) else { return false };
        if !program.takes(entry, cx) {
            return false;
        }
        program.run(entry, cx, batch);
        if cx.counts_cycles() {
            program.add_cycles(entry, cx.take_cycles());
        }
        true
    }

    /// Divides the cycles of the program among its elements, for readers of the counts.
    pub(super) fn share_cycles_out(&mut self) {
        self.program.share_all_out(&self.cx);
    }
}
