//! A section between its elements and its lanes: what goes where, and who counts it.

use std::sync::Arc;

use millrace_core::element::Receiver;
use millrace_core::{Batch, Context, Count, Inspection, PerThread, Reason, Task};
use millrace_gpu::Stage;
use millrace_gpu::plan::{Decision, Edge, Field, Node, Plan, PlanError};
use millrace_gpu::section::{Lanes, Mode, Section};
use millrace_lang::Diagnostic;

use super::book::{Role, Roles, StageRole};
use super::notes;
use super::runtime::Runtime;

/// The elements of a section, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) batcher: usize,
    pub(super) balancer: Option<usize>,
    pub(super) to_device: usize,
    /// Stages, each after those that lead to it.
    pub(super) stages: Vec<Placed>,
    pub(super) to_host: usize,
    pub(super) queue: Option<usize>,
    pub(super) debatcher: usize,
}

/// A stage in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) element: usize,
    /// The ways to it: a stage's place in the section, and the port of its element. Empty when all
    /// packets come.
    pub(super) from: Vec<(usize, usize)>,
    /// The stage and the output that CHK_ANNO names.
    pub(super) only: Option<(usize, u32)>,
}

impl Layout {
    /// All elements of the section.
    pub(super) fn elements(&self) -> impl Iterator<Item = usize> + '_ {
        self.frame().chain(self.stages.iter().map(|placed| placed.element))
    }

    /// All but the stages.
    fn frame(&self) -> impl Iterator<Item = usize> + '_ {
        let ends = [Some(self.batcher), self.balancer, Some(self.to_device), Some(self.to_host)];
        ends.into_iter().chain([self.queue, Some(self.debatcher)]).flatten()
    }

    /// The place of a stage.
    pub(super) fn place_of(&self, element: usize) -> Option<usize> {
        self.stages.iter().position(|placed| placed.element == element)
    }
}

/// A section that can run.
pub(super) struct Unit {
    pub(super) layout: Layout,
    pub(super) section: Arc<Section>,
    stages: Vec<Arc<dyn Stage>>,
    pub(super) lanes: Lanes,
    /// The Debatcher's tasks.
    pub(super) tasks: Receiver,
    /// What each stage decides, and how its packets go on.
    pub(super) turns: Vec<Turn>,
    /// The annotation that gets the predicate word, when something is decided.
    pub(super) annotation: Option<usize>,
    pub(super) passages: PerThread<Arc<Passage>>,
}

/// Where the ways of packets part.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) field: Option<Field>,
    /// Outputs of the element: with one, all packets that are not dropped leave by it.
    ports: usize,
    reason: Reason,
}

/// How many packets a thread has brought into the section, and out of it.
#[derive(Debug, Default)]
pub(super) struct Passage {
    pub(super) entered: Count,
    pub(super) left: Count,
}

/// Makes the plan of a section; reports what cannot be planned.
pub(super) fn plan(
    layout: Layout,
    roles: &Roles,
    runtime: &Runtime,
    inspection: &mut Inspection<'_>,
) -> Option<Unit> {
    let stage = |place: &Placed| match roles.get(&place.element) {
        Some(Role::Stage(role)) => Some(role),
        _ => None,
    };
    let stages: Vec<&StageRole> = layout.stages.iter().map(stage).collect::<Option<_>>()?;
    let Some(Role::Batcher(collecting)) = roles.get(&layout.batcher) else { return None };
    let Some(Role::Debatcher(tasks, annotation)) = roles.get(&layout.debatcher) else {
        return None;
    };
    let nodes = layout.stages.iter().zip(&stages).map(|(placed, role)| Node {
        stage: role.stage.clone(),
        from: placed.from.iter().flat_map(|&(node, port)| edges(&stages, node, port)).collect(),
        only: placed.only.map(|(node, output)| Edge { node, output }),
    });
    let nodes: Vec<Node> = nodes.collect();
    let plan = match Plan::with_slices(&nodes, collecting.limits(), collecting.slices()) {
        Ok(plan) => Arc::new(plan),
        Err(PlanError { node, message }) => {
            let element = layout.stages.get(node).map_or(layout.batcher, |placed| placed.element);
            let message = format!("‘{}’: {message}", inspection.described(element));
            inspection.report(Diagnostic::error(inspection.span_of(element), message));
            return None;
        }
    };
    let turns = stages.iter().enumerate().map(|(node, role)| Turn {
        field: plan.steps.get(node).and_then(|step| step.field),
        ports: role.ports,
        reason: role.reason,
    });
    let turns: Vec<Turn> = turns.collect();
    let annotation = turns.iter().any(|turn| turn.field.is_some()).then_some(*annotation);
    notes::check(&layout, &stages, annotation, inspection);
    let length = layout.queue.and_then(|queue| match roles.get(&queue) {
        Some(Role::CompletionQueue(length)) => *length,
        _ => None,
    });
    let choice = layout.balancer.and_then(|balancer| match roles.get(&balancer) {
        Some(Role::Balancer(choice)) => Some(choice),
        _ => None,
    });
    let inline = inspection.clock().is_virtual();
    let mut settings = collecting.settings(runtime, length, choice, inline);
    // What is measured is real time, by which no two runs would be the same.
    if inline && settings.mode == Mode::Adaptive {
        settings.mode = Mode::Gpu;
    }
    let stages: Vec<_> = stages.iter().map(|role| role.stage.clone()).collect();
    Some(Unit {
        section: Section::new(plan, stages.clone(), Some(runtime.source()), settings),
        stages,
        lanes: Lanes::default(),
        tasks: tasks.clone(),
        annotation,
        turns,
        passages: PerThread::default(),
        layout,
    })
}

/// The edges that a port of a stage's element stands for: with one port, all outputs leave by it.
fn edges(stages: &[&StageRole], node: usize, port: usize) -> Vec<Edge> {
    let outputs = stages.get(node).map_or(0, |role| role.stage.spec().outputs);
    match stages.get(node).is_some_and(|role| role.ports == 1) {
        true if outputs > 0 => (0..outputs).map(|output| Edge { node, output }).collect(),
        _ => vec![Edge { node, output: port as u32 }],
    }
}

impl Unit {
    /// The tables of its stages, as they are now.
    pub(super) fn tables(&self) -> impl Iterator<Item = Arc<Vec<u32>>> + '_ {
        self.stages.iter().filter_map(|stage| Some(stage.table()?.words))
    }

    /// Takes packets in. Waits for the oldest batch as long as there is no room.
    pub(super) fn enter(&self, cx: &mut Context, batch: &mut Batch) {
        let mut lane = self.lanes.mine(cx, &self.section);
        self.passages.mine(cx).entered.add(batch.len() as u64);
        lane.add(cx.now(), batch);
        while !batch.is_empty() {
            lane.tick(cx.now());
            lane.take(cx, |cx, batch, predicates| self.leave(cx, batch, predicates));
            lane.add(cx.now(), batch);
        }
        drop(lane);
        if let Some(task) = self.tasks.task_on(cx.thread()) {
            task.schedule();
        }
    }

    /// Looks after the running thread's packets, and sends those on that are done. Whether there is, or will soon be,
    /// something to do; whether the lane is empty.
    pub(super) fn attend(&self, cx: &mut Context) -> (bool, bool) {
        let Some(mut lane) = self.lanes.own(cx) else { return (false, true) };
        let mut busy = lane.tick(cx.now());
        while lane.take(cx, |cx, batch, predicates| self.leave(cx, batch, predicates)) {
            busy = true;
        }
        (busy, lane.held() == 0)
    }

    /// Takes over the packets of the section before a hot swap; they are treated anew.
    pub(super) fn take_over(&self, old: &Self) {
        let first = self.tasks.tasks().first().map_or(0, Task::home);
        let heir_of = |thread| self.tasks.task_on(thread).map_or(first, |_| thread);
        self.lanes.take_over(&self.section, &old.lanes, heir_of);
        self.tasks.tasks().iter().for_each(Task::schedule);
    }

    /// Packets that are in the section.
    pub(super) fn held(&self) -> usize {
        self.section.held() + self.lanes.awaiting()
    }

    /// Sends packets on whose batch is done, and books their way with the elements that they have passed.
    fn leave(&self, cx: &mut Context, batch: &mut Batch, predicates: &[u32]) {
        let n = batch.len();
        self.passages.mine(cx).left.add(n as u64);
        let Layout { batcher, balancer, to_device, to_host, queue, debatcher, .. } = self.layout;
        cx.passed(batcher, 0, n);
        for element in balancer.into_iter().chain([to_device]) {
            cx.passed(element, n, n);
        }
        if let Some(annotation) = self.annotation {
            self.book_turns(cx, predicates);
            if predicates.iter().any(|&predicate| self.drops(predicate)) {
                let mut predicate = predicates.iter();
                batch.map_filter(|packet| {
                    let dropped = predicate.next().is_some_and(|&predicate| self.drops(predicate));
                    (!dropped).then_some(packet)
                });
                let mut kept = predicates.iter().filter(|&&predicate| !self.drops(predicate));
                for packet in batch.iter_mut() {
                    packet.set_anno_u32(annotation, kept.next().copied().unwrap_or(0));
                }
            } else {
                for (packet, &predicate) in batch.iter_mut().zip(predicates) {
                    packet.set_anno_u32(annotation, predicate);
                }
            }
        } else {
            for placed in &self.layout.stages {
                cx.passed(placed.element, n, n);
            }
        }
        let left = batch.len();
        for element in [Some(to_host), queue].into_iter().flatten() {
            cx.passed(element, left, left);
        }
        cx.passed(debatcher, left, 0);
        cx.run_as(debatcher, |cx| cx.push_batch(0, batch));
    }

    /// Whether a stage decided to drop the packet with this predicate word.
    #[inline]
    fn drops(&self, predicate: u32) -> bool {
        let dropped = |field: Field| field.decision(predicate) == Decision::Drop;
        self.turns.iter().filter_map(|turn| turn.field).any(dropped)
    }

    /// Books packets with the stages that they have come to.
    fn book_turns(&self, cx: &mut Context, predicates: &[u32]) {
        let mut came = vec![0usize; self.turns.len()];
        let mut dropped = vec![0usize; self.turns.len()];
        for &predicate in predicates {
            let mut reached = 0u64;
            for (at, (placed, turn)) in self.layout.stages.iter().zip(&self.turns).enumerate() {
                let comes = |&(from, port): &(usize, usize)| {
                    reached >> from & 1 == 1 && self.goes_on(from, port, predicate)
                };
                if !placed.from.is_empty() && !placed.from.iter().any(comes) {
                    continue;
                }
                reached |= 1 << at;
                came[at] += 1;
                let drop = |field: Field| field.decision(predicate) == Decision::Drop;
                dropped[at] += usize::from(turn.field.is_some_and(drop));
            }
        }
        for ((placed, turn), (came, dropped)) in
            self.layout.stages.iter().zip(&self.turns).zip(came.into_iter().zip(dropped))
        {
            cx.passed(placed.element, came, came - dropped);
            cx.dropped_at(placed.element, dropped, turn.reason);
        }
    }

    /// Whether a packet that came to stage `from` leaves by that port of its element.
    fn goes_on(&self, from: usize, port: usize, predicate: u32) -> bool {
        let Some(turn) = self.turns.get(from) else { return false };
        match turn.field.map(|field| field.decision(predicate)) {
            None => true,
            Some(Decision::Drop) => false,
            // It was not for the stage.
            Some(Decision::Open) => port == 0,
            Some(Decision::Output(output)) => turn.ports == 1 || output as usize == port,
        }
    }
}
