//! One round of the thread's loop, in parts: tasks, timers, inputs with packets.

use std::sync::Arc;
use std::time::Instant;

use super::roster::{HandedOver, Roster};
use crate::drops::Reason;
use crate::engine::{Context, Node, Taps};
use crate::graph::Wiring;
use crate::memory::Batch;
use crate::program::{Layout, Program};
use crate::schedule::{Inbox, Task, TimerQueue, Waker};
use crate::time::Timestamp;

/// What one thread runs.
pub(super) struct Worker {
    pub(super) cx: Context,
    /// The program for elements that process packets one by one.
    program: Program,
    roster: Roster,
    timers: TimerQueue,
    /// How many timers have run.
    timers_run: u64,
    waker: Arc<Waker>,
    plain: Plain,
    /// How often what is observed had changed when this thread last looked.
    observed: u64,
}

/// What a thread runs while nothing is observed.
struct Plain {
    wiring: Arc<Wiring>,
    layout: Layout,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.timers.inbox().close();
        self.waker.close();
    }
}

/// One round of the thread's loop, in parts.
impl Worker {
    pub(super) fn new(
        mut cx: Context,
        wiring: Arc<Wiring>,
        layout: Layout,
        tasks: Vec<Task>,
    ) -> Self {
        let mut program = layout.program(wiring.frames.len(), cx.nodes().len());
        program.link(&mut cx);
        let waker = cx.router().wakers()[cx.thread()].clone();
        Self {
            cx,
            program,
            roster: Roster::new(tasks),
            timers: TimerQueue::default(),
            timers_run: 0,
            waker,
            plain: Plain { wiring, layout },
            observed: 0,
        }
    }

    /// Runs each scheduled task once, and the elements downstream of what it sent. Returns whether one did
    /// any work.
    pub(super) fn run_tasks(&mut self) -> bool {
        let mut worked = false;
        self.cx.begin_round();
        if self.roster.changes(&self.waker) {
            worked |= self.change();
        }
        for at in 0..self.roster.tasks().len() {
            let task = &self.roster.tasks()[at];
            if !task.is_scheduled() {
                continue;
            }
            task.begin();
            let (element, index) = (task.element(), task.index());
            let start = self.cx.mark();
            worked |= self.cx.run_task(element, index);
            self.run_waiting();
            self.roster.tasks()[at].add_cycles(self.cx.cycles_since(start));
        }
        self.cx.note_work(worked);
        worked
    }

    /// Hands tasks over and accepts others, and looks for what is observed. Returns whether a task left.
    #[cold]
    fn change(&mut self) -> bool {
        let left = self.roster.change(&self.waker, || handed_over(&self.cx));
        if self.cx.router().observations().changes() != self.observed {
            self.observe();
        }
        if self.cx.is_watched_singly() {
            self.cx.measure_round();
            self.waker.remind();
        }
        left
    }

    /// Watches what is observed from now on, and nothing else. Between two rounds no packet is in the program.
    fn observe(&mut self) {
        let router = self.cx.router().clone();
        let (observations, observed) = router.observations().current();
        self.observed = observed;
        let Plain { wiring, layout } = &self.plain;
        let frames = wiring.frames.len();
        let program = if observations.is_empty() {
            self.cx.set_taps(None, wiring.clone());
            layout.program(frames, router.len())
        } else {
            let taps = Taps::new(&observations, router.connections(), wiring);
            let program = match taps.singly {
                true => Program::of_nobody(frames, router.len()),
                false => layout.tapped(&taps.outputs().collect()).program(frames, router.len()),
            };
            let wiring = Arc::new(taps.wire(wiring));
            self.cx.set_taps(Some(Arc::new(taps)), wiring);
            program
        };
        self.program.share_all_out(&self.cx);
        self.program.give_way(program);
        self.program.link(&mut self.cx);
        router.heed_order();
        self.cx.heed_order();
    }

    /// Makes the state of elements anew, in memory near the running thread. Only before the first round.
    pub(super) fn renew_nodes(&mut self) {
        self.cx.renew_nodes();
        self.program.link(&mut self.cx);
    }

    /// Whether a task waits to be handed over.
    pub(super) fn has_leaving(&self) -> bool {
        self.roster.has_leaving()
    }

    /// Runs the timers that have expired, and the elements downstream of what they sent. Returns whether
    /// there were any.
    pub(super) fn run_timers(&mut self) -> bool {
        let mut ran = false;
        // Timers that expire while these run wait for the next round: tasks have their turn. On virtual time, one that
        // is scheduled for now again has expired, too.
        let now = self.cx.now();
        for _ in 0..self.timers.len() {
            let Some(timer) = self.timers.pop(now) else { break };
            ran = true;
            self.timers_run += 1;
            self.cx.charge();
            self.cx.run_node(timer.element(), timer.index(), |node, cx| node.run_timer(cx));
            self.run_waiting();
        }
        ran
    }

    /// How many timers have run so far.
    pub(super) fn timers_run(&self) -> u64 {
        self.timers_run
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
        self.roster.tasks()
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
        const LOOK_UP: u32 = 1 << 10;
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
            if cx.is_watched_singly() {
                cx.show_begin(frame, batch);
            }
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

/// For each element, the packets that a thread has handed over to others through it.
fn handed_over(cx: &Context) -> HandedOver {
    let rings_of = |node: &Option<Box<dyn Node>>| {
        let mut rings = Vec::new();
        if let Some(node) = node {
            node.handed_over(cx.thread(), &mut rings);
        }
        rings
    };
    cx.nodes().iter().map(rings_of).collect()
}
