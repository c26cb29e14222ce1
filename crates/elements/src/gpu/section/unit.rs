//! Connects a section's elements with its lanes: moves packets in and out, and counts them.

use std::sync::Arc;

use millrace_core::element::Receiver;
use millrace_core::{Batch, Context, Count, PerThread, Reason, Task};
use millrace_gpu::batch::Part;
use millrace_gpu::kernel::NONE;
use millrace_gpu::plan::{Decision, Field};
use millrace_gpu::section::{Lanes, Section};

use super::layout::Layout;
use super::news::News;

/// A section that can run.
pub(crate) struct Unit {
    pub(crate) layout: Layout,
    pub(crate) section: Arc<Section>,
    pub(crate) lanes: Lanes,
    pub(crate) news: News,
    /// The Debatcher's tasks.
    pub(crate) tasks: Receiver,
    /// The decisions of each stage, and how its packets go on.
    pub(crate) turns: Vec<Turn>,
    /// The annotation for the predicate word, if anything is decided.
    pub(crate) annotation: Option<usize>,
    pub(crate) passages: PerThread<Arc<Passage>>,
}

/// The decision of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) field: Option<Field>,
    /// Number of outputs of the element: with one, all packets that are not dropped leave by it.
    pub(crate) ports: usize,
    pub(crate) reason: fn(u32) -> Reason,
}

/// The number of packets that a thread has brought into the section, and out of it.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    pub(crate) entered: Count,
    pub(crate) left: Count,
}

impl Unit {
    /// Accepts packets. Waits for the oldest batch as long as there is no room.
    pub(crate) fn enter(&self, cx: &mut Context, batch: &mut Batch) {
        let mut lane = self.lanes.mine(cx, &self.section);
        self.passages.mine(cx).entered.add(batch.len() as u64);
        lane.add(cx.now(), batch);
        while !batch.is_empty() {
            lane.tick(cx.now());
            lane.take(cx, |cx, batch, part| self.leave(cx, batch, part));
            lane.add(cx.now(), batch);
        }
        drop(lane);
        if let Some(task) = self.tasks.task_on(cx.thread()) {
            task.schedule();
        }
    }

    /// Attends to the running thread's lane, and emits packets that are done. Returns whether there is, or will soon
    /// be, work to do, and whether the lane is empty.
    pub(crate) fn attend(&self, cx: &mut Context) -> (bool, bool) {
        let Some(mut lane) = self.lanes.own(cx) else { return (false, true) };
        let mut busy = lane.tick(cx.now());
        if let Some(news) = self.news.of(lane.has_failed(), cx.now()) {
            let name = cx.router().name_of(self.layout.debatcher);
            cx.router().chatter(&format!("{name}: {news}"));
        }
        while lane.take(cx, |cx, batch, part| self.leave(cx, batch, part)) {
            busy = true;
        }
        (busy, lane.held() == 0)
    }

    /// Finishes the running thread's packets when no more arrive, and emits those that are done. Returns whether any
    /// are left.
    pub(crate) fn drain(&self, cx: &mut Context) -> bool {
        if let Some(mut lane) = self.lanes.own(cx) {
            lane.flush();
        }
        let (_, empty) = self.attend(cx);
        !empty
    }

    /// Takes over the packets of the section before a hot swap; they are processed again.
    pub(crate) fn take_over(&self, old: &Self) {
        let first = self.tasks.tasks().first().map_or(0, Task::home);
        let heir_of = |thread| self.tasks.task_on(thread).map_or(first, |_| thread);
        self.lanes.take_over(&self.section, &old.lanes, heir_of);
        self.tasks.tasks().iter().for_each(Task::schedule);
    }

    /// The number of packets in the section.
    pub(crate) fn held(&self) -> usize {
        self.section.held() + self.lanes.awaiting()
    }

    /// Emits the packets of a finished batch, and counts them for the elements that they have passed.
    fn leave(&self, cx: &mut Context, batch: &mut Batch, part: &Part<'_>) {
        let predicates = part.predicates();
        let n = batch.len();
        self.passages.mine(cx).left.add(n as u64);
        let Layout { batcher, balancer, to_device, to_host, queue, debatcher, .. } = self.layout;
        cx.passed(batcher, 0, n);
        for element in balancer.into_iter().chain([to_device]) {
            cx.passed(element, n, n);
        }
        if let Some(annotation) = self.annotation {
            self.book_turns(cx, part);
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

    /// Counts packets for the stages that they have reached.
    fn book_turns(&self, cx: &mut Context, part: &Part<'_>) {
        let mut came = vec![0usize; self.turns.len()];
        let mut dropped = vec![0usize; self.turns.len()];
        for (row, &predicate) in part.predicates().iter().enumerate() {
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
                if turn.field.is_some_and(drop) {
                    let result = part.results(at).get(row).copied().unwrap_or(NONE);
                    cx.dropped_at(placed.element, 1, (turn.reason)(result));
                    dropped[at] += 1;
                }
            }
        }
        for ((placed, came), dropped) in self.layout.stages.iter().zip(came).zip(dropped) {
            cx.passed(placed.element, came, came - dropped);
        }
    }

    /// Whether a packet that came to stage `from` leaves by that port of its element.
    fn goes_on(&self, from: usize, port: usize, predicate: u32) -> bool {
        let Some(turn) = self.turns.get(from) else { return false };
        match turn.field.map(|field| field.decision(predicate)) {
            None => true,
            Some(Decision::Drop) => false,
            // The packet was not for this stage.
            Some(Decision::Open) => port == 0,
            Some(Decision::Output(output)) => turn.ports == 1 || output as usize == port,
        }
    }
}
