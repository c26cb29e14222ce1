//! Which thread runs what: homes of tasks and timers, and the thread vector of each element.
//!
//! The thread vector is FastClick's (Barbette et al., ANCS'15, section 5.4): the set of threads
//! whose packets can reach an element. A traversal starts at each task and timer with its home
//! thread, follows push connections downstream and pull connections upstream, and so stops at
//! queues of its own accord: nothing pushes through a pull output.

use super::draft::DraftReceiver;
use super::{Draft, Link};
use crate::element::{ClassInfo, PortKind, share};
use crate::stats::MAX_THREADS;

/// The threads of a router.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How many threads there are.
    pub threads: usize,
    /// The core that each thread is pinned to; empty when threads are not pinned.
    pub cores: Vec<usize>,
    /// For each element the threads that can reach it, one bit each.
    pub reach: Vec<u64>,
    /// For each task its element, its home thread and why it is there.
    pub tasks: Vec<PlannedTask>,
    /// For each element with timers its home thread.
    pub timers: Vec<(usize, usize)>,
}

/// Where a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The element.
    pub element: usize,
    /// Which of its tasks.
    pub index: usize,
    /// The device that the task receives from, and which of its queues.
    pub receives: Option<(String, Vec<usize>)>,
    /// The home thread.
    pub thread: usize,
    /// Why it runs there.
    pub why: &'static str,
    /// False of a task that would pull from an input to which packets are pushed.
    pub runs: bool,
}

/// What the planner looks at.
pub(super) struct Graph<'a> {
    pub(super) names: &'a [String],
    pub(super) classes: &'a [&'static ClassInfo],
    pub(super) inputs: &'a [Vec<PortKind>],
    pub(super) outputs: &'a [Vec<PortKind>],
    pub(super) connections: &'a [Link],
}

impl Plan {
    /// Plans a router for `threads` threads.
    pub(super) fn new(
        graph: &Graph<'_>,
        draft: &mut Draft,
        threads: usize,
        cores: Vec<usize>,
    ) -> Self {
        let threads = threads.clamp(1, MAX_THREADS);
        let mut plan =
            Plan { threads, cores, reach: vec![0; graph.names.len()], ..Plan::default() };
        plan.place_tasks(graph, draft);
        plan.place_receivers(graph, draft);
        plan.place_timers(graph, draft);
        plan.find_reach(graph, draft);
        plan
    }

    /// The tasks that ever run.
    pub fn running(&self) -> impl Iterator<Item = &PlannedTask> {
        self.tasks.iter().filter(|task| task.runs)
    }

    /// The threads that can reach element `id`, in order.
    pub fn threads_of(&self, id: usize) -> impl Iterator<Item = usize> {
        let reach = self.reach.get(id).copied().unwrap_or(0);
        (0..self.threads).filter(move |thread| reach >> thread & 1 == 1)
    }

    fn place_tasks(&mut self, graph: &Graph<'_>, draft: &Draft) {
        for planned in &draft.tasks {
            let element = planned.task.element();
            let (thread, why) = match pin_of(&graph.names[element], draft) {
                Some(thread) => (thread, "set by the configuration"),
                None => (0, "other tasks run on the first thread"),
            };
            let pulled = |input: usize| graph.inputs[element].get(input) == Some(&PortKind::Pull);
            self.tasks.push(PlannedTask {
                runs: planned.pulls.is_none_or(pulled),
                element,
                index: planned.task.index(),
                receives: None,
                thread: thread % self.threads,
                why,
            });
        }
    }

    /// Divides the threads among the elements that receive from devices, and makes their tasks.
    fn place_receivers(&mut self, graph: &Graph<'_>, draft: &mut Draft) {
        let receivers = std::mem::take(&mut draft.receivers);
        let each = (self.threads / receivers.len().max(1)).max(1);
        let over = self.threads.saturating_sub(each * receivers.len());
        let mut next = 0;
        for (n, DraftReceiver { element, wish, receiver }) in receivers.iter().enumerate() {
            let own = each + usize::from(n < over);
            let (first, count, why) = match pin_of(&graph.names[*element], draft) {
                Some(thread) => (thread, 1, "set by the configuration"),
                None => (next, own, "receive queues are spread over the threads"),
            };
            next += own;
            let first = wish.thread_offset.unwrap_or(first);
            let left = wish.has_queues.map(|has| has.saturating_sub(wish.first_queue));
            let available = wish.queues.or(left).unwrap_or(count);
            // Threads that share a queue mix the order of its packets: only when asked for.
            let most = wish.max_threads.unwrap_or(available);
            let count = count.min(most).max(1);
            let queues = wish.queues.unwrap_or(count.min(available)).max(1);
            let mut tasks = Vec::new();
            for slot in 0..count {
                let task = draft.add_task(*element);
                let numbers = share(queues, count, slot).map(|queue| wish.first_queue + queue);
                self.tasks.push(PlannedTask {
                    runs: true,
                    element: *element,
                    index: task.index(),
                    receives: Some((wish.device.clone(), numbers.collect())),
                    thread: (first + slot) % self.threads,
                    why,
                });
                tasks.push(task);
            }
            receiver.settle(tasks, wish.first_queue..wish.first_queue + queues);
        }
        draft.receivers = receivers;
    }

    fn place_timers(&mut self, graph: &Graph<'_>, draft: &Draft) {
        for timer in &draft.timers {
            let element = timer.element();
            let pin = pin_of(&graph.names[element], draft);
            let of_task = || self.tasks.iter().find(|task| task.element == element);
            let thread = pin.or_else(|| of_task().map(|task| task.thread)).unwrap_or(0);
            self.timers.push((element, thread % self.threads));
        }
    }

    fn find_reach(&mut self, graph: &Graph<'_>, draft: &Draft) {
        let mut starts: Vec<(usize, usize)> =
            self.running().map(|task| (task.element, task.thread)).collect();
        starts.extend(&self.timers);
        starts.extend(draft.driver.map(|driver| (driver, 0)));
        let next = graph.neighbours();
        for (element, thread) in starts {
            self.spread(graph, &next, element, thread);
        }
    }

    /// Adds `thread` to every element that its work can reach from `start`.
    fn spread(&mut self, graph: &Graph<'_>, next: &[Vec<usize>], start: usize, thread: usize) {
        let bit = 1u64 << thread;
        let mut todo = vec![start];
        let mut seen = vec![false; next.len()];
        while let Some(element) = todo.pop() {
            if std::mem::replace(&mut seen[element], true) {
                continue;
            }
            self.reach[element] |= bit;
            if element != start && graph.classes[element].class.crosses_threads {
                continue;
            }
            todo.extend(&next[element]);
        }
    }
}

impl Graph<'_> {
    /// For each element those that it pushes to and those that it pulls from.
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); self.names.len()];
        for &((from, output), (to, _)) in self.connections {
            match self.outputs[from][output] {
                PortKind::Pull => next[to].push(from),
                _ => next[from].push(to),
            }
        }
        next
    }
}

/// The thread that the configuration pins an element to: the last word about the element itself
/// or a compound around it.
fn pin_of(name: &str, draft: &Draft) -> Option<usize> {
    let covers = |pin: &str| {
        name.strip_prefix(pin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    draft.pins.iter().rev().find(|(pin, _)| covers(pin)).map(|&(_, thread)| thread)
}
