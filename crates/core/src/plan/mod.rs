//! Which thread runs what, where, and on which packets: seats of threads, homes of tasks and timers, device
//! queues, and the thread vector of each element.
//!
//! The thread vector is FastClick's (Barbette et al., ANCS'15, section 5.4): the set of threads whose packets
//! can reach an element. A traversal starts at each task and timer with its home thread, and follows push
//! connections downstream and pull connections upstream. So it stops at queues by itself: nothing pushes
//! through a pull output. It also ends at elements that carry packets to another thread (Pipeliner), whose
//! task continues from there. From an element that sends by thread (CPUSwitch), each thread continues only at
//! its own output.
//!
//! Planning has steps, each based on the results of those before:
//!
//! 1. `seats`: how many threads each NUMA node gets, and which cores;
//! 2. `assign`: which threads receive from which device, on how many queues;
//! 3. homes of the tasks that stay in place, and of timers;
//! 4. homes of the tasks that carry packets to other threads, away from where these come from;
//! 5. thread vectors, tasks on each thread that reaches an element, transmit queues, and the threads that may
//!    count references plainly;
//! 6. `passages`: which elements packets pass in one go.

mod assign;
mod draft;
mod graph;
mod passages;
mod reach;
mod receiving;
mod seats;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use assign::{Applicant, assign};
use draft::{DraftReceiver, DraftTask, DraftTeam};
use reach::Ways;
use seats::{Demand, seats};

pub(crate) use draft::{Draft, Place};
pub(crate) use graph::Graph;
pub use receiving::{Receiver, Receiving, Transmitting, share};
pub(crate) use seats::Pinning;
pub use seats::Seat;

use crate::graph::PortKind;
use crate::stats::MAX_THREADS;
use crate::topology::Topology;

/// The threads of a router.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The number of threads.
    pub threads: usize,
    /// Where each thread runs.
    pub seats: Vec<Seat>,
    /// The number of NUMA nodes of the machine.
    pub nodes: usize,
    /// For each element the threads that can reach it, one bit each.
    pub reach: Vec<u64>,
    /// For each task its element, its home thread and why it is there.
    pub tasks: Vec<PlannedTask>,
    /// For each element with timers its home thread.
    pub timers: Vec<(usize, usize)>,
    /// Which elements receive from devices.
    pub receivers: Vec<PlannedReceiver>,
    /// Which elements transmit to devices.
    pub transmitters: Vec<PlannedTransmitter>,
    /// The threads whose packets do not reach other threads, one bit each: they change reference counts of
    /// shared packets without atomic instructions.
    pub plain: u64,
    /// Groups of elements that process packets one by one, from step to step.
    pub passages: Vec<Vec<usize>>,
    /// Whether the groups are used.
    pub(crate) optimised: bool,
    /// Parts of the configuration that the plan could not follow, as sentences.
    pub notes: Vec<String>,
    ways: Ways,
    /// The home thread of each element's first task.
    homes: HashMap<usize, usize>,
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
    pub why: Cow<'static, str>,
    /// False for a task that would pull from an input to which packets are pushed.
    pub runs: bool,
}

/// An element that receives from a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedReceiver {
    /// The element.
    pub element: usize,
    /// The device.
    pub device: String,
    /// The NUMA node of the device, if it is known to be on one.
    pub node: Option<usize>,
    /// The queues to open.
    pub queues: Range<usize>,
    /// The threads that receive.
    pub threads: Vec<usize>,
    /// The reason for this choice.
    pub why: String,
}

/// An element that transmits to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTransmitter {
    /// The element.
    pub element: usize,
    /// The device.
    pub device: String,
    /// The NUMA node of the device, if it is known to be on one.
    pub node: Option<usize>,
    /// The queues to open.
    pub queues: Range<usize>,
    /// The threads that transmit.
    pub threads: Vec<usize>,
}

impl PlannedTransmitter {
    /// Whether threads share a queue, and so lock it.
    pub fn is_locked(&self) -> bool {
        self.queues.len() < self.threads.len()
    }
}

/// The planner's input: the machine and the options.
pub(crate) struct Means<'a> {
    pub(crate) threads: usize,
    pub(crate) pinning: Pinning,
    pub(crate) topology: &'a Topology,
    /// Whether packets may pass elements in one go.
    pub(crate) optimise: bool,
}

impl Plan {
    /// Plans a router.
    pub(crate) fn new(graph: &Graph<'_>, draft: &mut Draft, means: &Means<'_>) -> Self {
        let threads = means.threads.clamp(1, MAX_THREADS);
        let mut plan = Plan {
            threads,
            nodes: means.topology.nodes().len(),
            reach: vec![0; graph.names.len()],
            ways: Ways::new(graph),
            ..Plan::default()
        };
        plan.heed_pins(draft);
        let receivers = std::mem::take(&mut draft.receivers);
        plan.seat(graph, draft, &receivers, means);
        plan.place_tasks(graph, draft);
        plan.place_timers(graph, draft);
        plan.find_reach(draft);
        plan.place_crossings(graph, draft);
        plan.place_attendances(graph, draft);
        plan.place_transmitters(graph, draft, means.topology);
        plan.find_plain(graph);
        plan.sort_tasks(draft);
        if means.optimise {
            plan.optimised = true;
            plan.passages = passages::find(graph);
        }
        draft.receivers = receivers;
        plan
    }

    /// The home thread of an element's first task.
    pub fn home_of(&self, element: usize) -> Option<usize> {
        self.homes.get(&element).copied()
    }

    /// The tasks that may run.
    pub fn running(&self) -> impl Iterator<Item = &PlannedTask> {
        self.tasks.iter().filter(|task| task.runs)
    }

    /// The threads that can reach element `id`, in order.
    pub fn threads_of(&self, id: usize) -> impl Iterator<Item = usize> {
        let reach = self.reach.get(id).copied().unwrap_or(0);
        (0..self.threads).filter(move |thread| reach >> thread & 1 == 1)
    }

    /// Whether a thread changes reference counts of shared packets without atomic instructions.
    pub fn counts_plainly(&self, thread: usize) -> bool {
        self.plain.checked_shr(thread as u32).unwrap_or(0) & 1 == 1
    }

    /// Of the elements that a task of `element` reaches, one that `thread` does not reach.
    pub(crate) fn out_of_reach(&self, element: usize, thread: usize) -> Option<usize> {
        let reached = self.ways.from(element, thread);
        reached.into_iter().find(|&id| self.reach.get(id).is_none_or(|r| r >> thread & 1 == 0))
    }

    /// Thread numbers in the configuration that do not exist wrap around; a note reports that.
    fn heed_pins(&mut self, draft: &Draft) {
        for (element, thread) in draft.pins.iter() {
            if let Some(thread) = thread.filter(|&thread| thread >= self.threads) {
                self.notes.push(format!(
                    "StaticThreadSched puts ‘{element}’ on thread {thread}, but the threads are 0 to {}: \
                     it runs on thread {}",
                    self.threads - 1,
                    thread % self.threads
                ));
            }
        }
    }

    /// The same for THREADOFFSET.
    fn heed_offset(&mut self, element: &str, offset: Option<usize>) {
        if let Some(offset) = offset.filter(|&offset| offset >= self.threads) {
            self.notes.push(format!(
                "‘{element}’ has THREADOFFSET {offset}, but the threads are 0 to {}: it counts from thread {}",
                self.threads - 1,
                offset % self.threads
            ));
        }
    }

    /// Gives the threads their seats, divides them among the elements that receive from devices, and creates
    /// the tasks of these elements.
    fn seat(
        &mut self,
        graph: &Graph<'_>,
        draft: &mut Draft,
        receivers: &[DraftReceiver],
        means: &Means<'_>,
    ) {
        let topology = means.topology;
        let known = topology.nodes();
        let applicants: Vec<Applicant<'_>> = receivers
            .iter()
            .map(|DraftReceiver { element, wish, .. }| Applicant {
                wish,
                node: topology.node_of_device(&wish.device).or(wish.numa_node),
                pin: draft.pins.thread_of(&graph.names[*element]),
            })
            .collect();
        let near = |node: usize| {
            let here = applicants.iter().filter(|one| one.node == Some(node) && !one.wish.any_node);
            let most = here.clone().map(Applicant::most).sum::<Option<usize>>();
            Demand { node, receivers: here.count(), most }
        };
        let demands: Vec<Demand> =
            known.iter().map(|&node| near(node)).filter(|demand| demand.receivers > 0).collect();
        self.seats = seats(self.threads, &means.pinning, topology, &demands);

        let grants = assign(&applicants, &self.seats, self.taken(graph, draft, receivers));
        for ((applicant, grant), drafted) in applicants.iter().zip(grants).zip(receivers) {
            let name = &graph.names[drafted.element];
            match applicant.pin {
                Some(_)
                    if applicant.wish.max_threads.is_some_and(|most| most > 1)
                        || applicant.wish.thread_offset.is_some() =>
                {
                    self.notes.push(format!(
                        "StaticThreadSched puts ‘{name}’ on one thread: its MAXTHREADS and THREADOFFSET do not count"
                    ));
                }
                Some(_) => {}
                None => self.heed_offset(name, applicant.wish.thread_offset),
            }
            let device = &applicant.wish.device;
            let mut tasks = Vec::new();
            for (slot, &thread) in grant.threads.iter().enumerate() {
                let task = draft.add_task(drafted.element, Place::Team);
                let numbers = share(grant.queues.len(), grant.threads.len(), slot);
                let numbers = numbers.map(|queue| grant.queues.start + queue).collect();
                self.tasks.push(PlannedTask {
                    runs: true,
                    element: drafted.element,
                    index: task.index(),
                    receives: Some((device.clone(), numbers)),
                    thread,
                    why: grant.why.clone().into(),
                });
                tasks.push(task);
            }
            drafted.receiver.settle(tasks, grant.queues.clone());
            self.receivers.push(PlannedReceiver {
                element: drafted.element,
                device: device.clone(),
                node: applicant.node,
                queues: grant.queues,
                threads: grant.threads,
                why: grant.why,
            });
        }
    }

    /// The threads that the configuration assigns to elements that do not receive, one bit each.
    fn taken(&self, graph: &Graph<'_>, draft: &Draft, receivers: &[DraftReceiver]) -> u64 {
        let receiving: HashSet<usize> = receivers.iter().map(|one| one.element).collect();
        let others = draft.tasks.iter().map(|task| task.task.element());
        let others = others.filter(|element| !receiving.contains(element));
        let pins = others.filter_map(|element| draft.pins.thread_of(&graph.names[element]));
        pins.fold(0, |taken, thread| taken | 1 << (thread % self.threads))
    }

    fn place_tasks(&mut self, graph: &Graph<'_>, draft: &Draft) {
        for drafted in &draft.tasks {
            let pin = draft.pins.thread_of(&graph.names[drafted.task.element()]);
            let (thread, why) = match (drafted.place, pin) {
                (Place::Team, _) | (Place::Away, None) => continue,
                (_, Some(thread)) => (thread % self.threads, "set by StaticThreadSched"),
                (Place::First, None) => (0, "other tasks run on the first thread"),
            };
            self.add_task(graph, drafted, thread, why.into());
        }
    }

    fn add_task(
        &mut self,
        graph: &Graph<'_>,
        drafted: &DraftTask,
        thread: usize,
        why: Cow<'static, str>,
    ) {
        let element = drafted.task.element();
        let pulled = |input: usize| graph.inputs[element].get(input) == Some(&PortKind::Pull);
        self.tasks.push(PlannedTask {
            runs: drafted.pulls.is_none_or(pulled),
            element,
            index: drafted.task.index(),
            receives: None,
            thread,
            why,
        });
    }

    /// Finds homes for the tasks that carry packets to another thread, upstream ones first.
    fn place_crossings(&mut self, graph: &Graph<'_>, draft: &mut Draft) {
        for team in std::mem::take(&mut draft.teams) {
            self.heed_offset(&graph.names[team.element], team.offset);
            self.place_team(draft, &team);
            draft.teams.push(team);
        }
        let away = |&at: &usize| {
            let drafted = &draft.tasks[at];
            let pin = draft.pins.thread_of(&graph.names[drafted.task.element()]);
            drafted.place == Place::Away && pin.is_none()
        };
        let todo: Vec<usize> = (0..draft.tasks.len()).filter(away).collect();
        let mut of_element: HashMap<usize, Vec<usize>> = HashMap::new();
        for &at in &todo {
            of_element.entry(draft.tasks[at].task.element()).or_default().push(at);
        }
        // Those that packets reach already, and the others.
        let (mut fed, mut others): (BTreeSet<usize>, BTreeSet<usize>) =
            todo.into_iter().partition(|&at| self.reach[draft.tasks[at].task.element()] != 0);
        let mut load = vec![0; self.threads];
        self.running().for_each(|task| load[task.thread] += 1);
        // Around a loop there may be none that packets reach.
        while let Some(at) = fed.pop_first().or_else(|| others.pop_first()) {
            let element = draft.tasks[at].task.element();
            let (thread, why) = self.away_from(self.reach[element], &load);
            self.add_task(graph, &draft.tasks[at], thread, why.into());
            load[thread] += usize::from(self.tasks.last().is_some_and(|task| task.runs));
            let all = (0..self.threads).filter(|_| draft.movable);
            for thread in all.chain([thread]) {
                for reached in self.spread(element, thread) {
                    let tasks = of_element.get(&reached).into_iter().flatten();
                    fed.extend(tasks.copied().filter(|at| others.remove(at)));
                }
            }
        }
    }

    /// The thread with the least work that is not one of `feeders`, if there is one; if possible on their
    /// node. `load` is the number of tasks of each thread.
    fn away_from(&self, feeders: u64, load: &[usize]) -> (usize, &'static str) {
        let node = self.seats.get(feeders.trailing_zeros() as usize).map(|seat| seat.node);
        let cost = |&thread: &usize| {
            let own = feeders >> thread & 1 == 1;
            let far = node.is_some_and(|node| self.seats[thread].node != node);
            (own, load[thread], far, thread)
        };
        let thread = (0..self.threads).min_by_key(cost).unwrap_or(0);
        match feeders >> thread & 1 {
            1 => (thread, "packets come from all threads"),
            _ => (thread, "the thread with least to do that packets do not come from"),
        }
    }

    /// Gives an element a task on each thread that works for it.
    fn place_team(&mut self, draft: &mut Draft, team: &DraftTeam) {
        let first = team.offset.unwrap_or(0) % self.threads;
        let count = team.most.unwrap_or(self.threads).clamp(1, self.threads);
        let mut tasks = Vec::new();
        for slot in 0..count {
            let task = draft.add_task(team.element, Place::Team);
            let thread = (first + slot) % self.threads;
            self.tasks.push(PlannedTask {
                runs: true,
                element: team.element,
                index: task.index(),
                receives: None,
                thread,
                why: "packets are spread over the threads".into(),
            });
            self.spread(team.element, thread);
            tasks.push(task);
        }
        team.receiver.settle(tasks, 0..count);
    }

    /// Gives the elements that request it a task on each thread that reaches them. The tasks continue where
    /// packets have arrived on their own threads, so the thread vectors do not change.
    fn place_attendances(&mut self, graph: &Graph<'_>, draft: &mut Draft) {
        for (element, receiver) in std::mem::take(&mut draft.attendances) {
            if draft.pins.thread_of(&graph.names[element]).is_some() {
                self.notes.push(format!(
                    "StaticThreadSched has no say over ‘{}’: it runs on every thread on which \
                     packets arrive",
                    graph.names[element]
                ));
            }
            let threads: Vec<usize> = self.threads_of(element).collect();
            let tasks: Vec<_> =
                threads.iter().map(|_| draft.add_task(element, Place::Team)).collect();
            for (task, &thread) in tasks.iter().zip(&threads) {
                task.stay();
                self.tasks.push(PlannedTask {
                    runs: true,
                    element,
                    index: task.index(),
                    receives: None,
                    thread,
                    why: "a task on each thread that packets come on".into(),
                });
            }
            receiver.settle(tasks, 0..threads.len());
            draft.attendances.push((element, receiver));
        }
    }

    /// Sorts the tasks in the order in which they were requested.
    fn sort_tasks(&mut self, draft: &Draft) {
        let drafted = draft.tasks.iter().map(|draft| (draft.task.element(), draft.task.index()));
        let asked: HashMap<(usize, usize), usize> = drafted.zip(0..).collect();
        self.tasks.sort_by_key(|planned| asked.get(&(planned.element, planned.index)));
        self.homes = self.first_threads();
    }

    /// For each element with tasks the thread of its first.
    fn first_threads(&self) -> HashMap<usize, usize> {
        let mut threads = HashMap::new();
        for task in &self.tasks {
            threads.entry(task.element).or_insert(task.thread);
        }
        threads
    }

    fn place_timers(&mut self, graph: &Graph<'_>, draft: &Draft) {
        let of_tasks = self.first_threads();
        for timer in &draft.timers {
            let element = timer.element();
            let pin = draft.pins.thread_of(&graph.names[element]);
            let thread = pin.or_else(|| of_tasks.get(&element).copied()).unwrap_or(0);
            self.timers.push((element, thread % self.threads));
        }
    }

    fn find_reach(&mut self, draft: &Draft) {
        let mut starts: Vec<(usize, usize)> =
            self.running().map(|task| (task.element, task.thread)).collect();
        if draft.movable {
            let free = self.running().filter(|task| task.receives.is_none());
            let anywhere = free.flat_map(|task| (0..self.threads).map(|on| (task.element, on)));
            let anywhere: Vec<_> = anywhere.collect();
            starts.extend(anywhere);
        }
        // The timers of an element that has tasks, but none that runs, serve these.
        let running: HashSet<usize> = self.running().map(|task| task.element).collect();
        let all: HashSet<usize> = self.tasks.iter().map(|task| task.element).collect();
        let idle = |element: &usize| all.contains(element) && !running.contains(element);
        starts.extend(self.timers.iter().filter(|timer| !idle(&timer.0)));
        starts.extend(draft.driver.map(|driver| (driver, 0)));
        for (element, thread) in starts {
            self.spread(element, thread);
        }
    }

    /// Adds `thread` to every element that its work can reach from `start`. Returns those that it did not reach before.
    fn spread(&mut self, start: usize, thread: usize) -> Vec<usize> {
        self.ways.spread(&mut self.reach, start, thread)
    }

    /// Gives each transmitting device one queue for each thread that sends, as far as it has them. Where
    /// packets are pulled, one task sends.
    fn place_transmitters(&mut self, graph: &Graph<'_>, draft: &Draft, topology: &Topology) {
        let mut own: HashMap<usize, Vec<usize>> = HashMap::new();
        for task in self.running().filter(|task| task.receives.is_none()) {
            own.entry(task.element).or_default().push(task.thread);
        }
        for (element, wish) in &draft.transmitters {
            let pulls = graph.inputs[*element].first() == Some(&PortKind::Pull);
            let threads: Vec<usize> = match pulls {
                true => own.get(element).cloned().unwrap_or_default(),
                false => self.threads_of(*element).collect(),
            };
            let has = wish.has_queues.map(|has| has.saturating_sub(wish.first_queue).max(1));
            let most = wish.queues.unwrap_or(threads.len()).min(has.unwrap_or(usize::MAX));
            let count = threads.len().min(most).max(1);
            self.transmitters.push(PlannedTransmitter {
                element: *element,
                device: wish.device.clone(),
                node: topology.node_of_device(&wish.device).or(wish.numa_node),
                queues: wish.first_queue..wish.first_queue.saturating_add(count),
                threads,
            });
        }
    }

    /// A thread keeps its packets unless it meets another thread where packets change threads: at a queue, at
    /// an element that carries them to another thread, at a device whose queues threads share.
    fn find_plain(&mut self, graph: &Graph<'_>) {
        let every = u64::MAX >> (u64::BITS as usize - self.threads);
        let passes_on = |id: usize| {
            graph.classes[id].crosses_threads
                || (graph.inputs[id].contains(&PortKind::Push)
                    && graph.outputs[id].contains(&PortKind::Pull))
        };
        let queues = (0..graph.names.len()).filter(|&id| passes_on(id));
        let devices = self.transmitters.iter().filter(|one| one.is_locked()).map(|one| one.element);
        let meetings = queues.chain(devices).map(|id| self.reach[id]);
        let shared = meetings.filter(|reach| reach.count_ones() > 1).fold(0, |all, one| all | one);
        self.plain = every & !shared;
    }
}
