//! The part of the graph that treats packets one by one, as one thread runs it.
//!
//! Each element that is [`PerPacket`](crate::PerPacket) is a *step*: the code of its class, a pointer to the
//! element and one to the thread's [`Local`](crate::Element::Local), and the step that follows at each output. A
//! packet that enters goes from step to step while its place, length and headers stay in registers
//! ([`View`](crate::View)): a step ends with a jump to the next one (threaded code; Bell, CACM 16(6), 1973). So
//! what a configuration costs is the sum of what its elements do, whichever they are and however they are
//! connected: nothing is listed, and nothing is compiled at run time.
//!
//! - **Branches and joins** are jumps. Where paths leave by outputs that lead to one input outside of the
//!   program, their packets come there in the order in which they entered, in one batch.
//! - **What is rare** - a packet to be dropped, an ICMP error, a fragment - leaves the row of steps: the
//!   element's [`aside`](crate::PerPacket::aside) gets the packet and the engine ([`turn`](step)).
//! - **Nobody is overtaken.** Before an element acts aside, what has left the program so far is handed over. If
//!   it sends packets to a step further on, the rest of the batch goes back to where it entered and follows them.
//!   While packets wait inside a program, elements run one by one.
//! - **Counts are flows.** A step counts what enters the program at it, what it turns aside and, if it chooses
//!   among outputs, what goes by each. Received and sent follow from these ([`Flow`]) when somebody reads them.
//! - **Cycles** of the program are shared out among its elements as one batch in [`SAMPLE`] has cost, which goes
//!   through them one by one.

#![allow(unsafe_code, reason = "steps point to each other and to their elements")]

mod fixed;
mod flow;
mod layout;
mod lot;
mod run;
mod step;
#[cfg(test)]
mod tests;

use std::ptr;
use std::sync::Arc;

use self::fixed::Fixed;
pub(crate) use self::flow::Flow;
use self::flow::{EdgeFlow, StepFlow};
pub(crate) use self::layout::{Layout, Target};
use self::lot::Lot;
use self::run::{Out, Run};
pub(crate) use self::step::Direction;
pub use self::step::Steps;
use self::step::{Forms, Turn};
use super::Context;
use super::dispatch::NOWHERE;
use crate::element::node::Node;
use crate::memory::Batch;

/// The steps of one thread.
pub(crate) struct Program {
    flow: Arc<Flow>,
    /// The steps, upstream ones first; then a step for each way out. Steps point to each other.
    ops: Fixed<Op>,
    /// The ways of all steps that choose among outputs; those of one stand together.
    edges: Fixed<Edge>,
    /// Where packets leave the program.
    outs: Fixed<Out>,
    /// Where packets meet, for each step at which they do.
    lots: Fixed<Lot>,
    /// What steps share while a batch goes through them.
    state: Fixed<Run>,
    entries: Vec<Entry>,
    /// For each frame the step that is entered there, or [`NOWHERE`].
    entry_of: Vec<u32>,
    /// For each element, the cycles that it got as a share.
    shares: Vec<u64>,
}

/// One step.
///
/// Invariant: pointers to steps, edges, flows and outs lead into the program that the step belongs to, whose
/// boxes do not move; `element` and `local` are those of the node that the program was linked with, of the class
/// whose code `run`, `turn` and `end` are.
#[repr(C)]
struct Op {
    run: Forms,
    /// The step at output 0, unless the element chooses among outputs.
    next: *const Op,
    element: *const (),
    local: *mut (),
    /// That of the program.
    state: *mut Run,
    /// For an element that chooses: its ways.
    edges: *const Edge,
    outputs: usize,
    flow: *const StepFlow,
    turn: Turn,
    end: Option<End>,
    /// The code of the class: that of `run`, unless the element waits for memory and `run` lets packets meet; and where
    /// they do.
    waiting_run: Forms,
    lot: *mut Lot,
    /// The element's number in the router.
    id: usize,
}

/// The way by one output.
struct Edge {
    /// Null when the output is not connected.
    op: *const Op,
    flow: *const EdgeFlow,
}

/// What a class does behind a batch.
type End = unsafe fn(*const Op, &mut Context);

// SAFETY: the pointers of a program lead into itself, which moves between threads as a whole, and to an element and
// a `Local`, of which the one is `Sync` and the other `Send`.
unsafe impl Send for Program {}

/// What belongs to packets that enter at one step.
struct Entry {
    frame: u32,
    /// The inputs further on: words of the bits of pending frames, and the bits.
    inside: Vec<(usize, u64)>,
    /// Where packets may leave.
    outs: Vec<usize>,
    /// The steps further on at which several ways meet.
    joins: Vec<usize>,
    /// The ways further on of elements that choose.
    edges: Vec<usize>,
    /// The steps further on at which packets meet.
    waits: Vec<usize>,
    /// The steps further on that are to be called behind a batch.
    ends: Vec<usize>,
    /// The elements that are reached.
    elements: Vec<usize>,
    turn: u32,
    /// Cycles that are not yet shared out among the elements.
    cycles: u64,
}

/// Every so often a batch goes through the elements one by one, to see what each of them costs.
const SAMPLE: u32 = 1021;

/// Every so many batches the cycles of an entry are shared out among its elements.
const SHARE_OUT: u32 = 32;

impl Program {
    /// The program of a layout, on a thread with these nodes. `frames` is how many frames there are.
    pub(crate) fn new(layout: &Layout, frames: usize, elements: usize) -> Self {
        let flow = Arc::new(Flow::of(layout));
        let edges = flow.edges.iter().map(|flow| Edge { op: ptr::null(), flow });
        let mut entry_of = vec![NOWHERE; frames];
        for (at, step) in layout.steps.iter().enumerate() {
            entry_of[step.frame as usize] = at as u32;
        }
        let mut entries: Vec<Entry> = layout.entries().map(Entry::from).collect();
        for entry in &mut entries {
            entry.joins.retain(|&step| flow.is_join(step));
        }
        let program = Self {
            ops: layout.ops().collect(),
            edges: edges.collect(),
            outs: layout.outs.iter().map(|&frame| Out::to(frame)).collect(),
            lots: layout.waiting().map(|_| Lot::default()).collect(),
            state: std::iter::once(Run::idle()).collect(),
            entries,
            entry_of,
            shares: vec![0; elements],
            flow,
        };
        program.connect(layout);
        program
    }

    /// Sets the pointers from step to step.
    fn connect(&self, layout: &Layout) {
        let steps = layout.steps.len();
        let nowhere = steps + layout.outs.len();
        let op_of = |target: Target| match target {
            Target::Step(to) => Some(self.ops.at(to)),
            Target::Out(out) => Some(self.ops.at(steps + out)),
            Target::Nowhere => None,
        };
        for (at, step) in layout.steps.iter().enumerate() {
            let op = self.ops.at(at);
            let first = step.targets.first().copied().and_then(op_of);
            let ways = step.edges();
            // SAFETY: nobody else uses the steps and ways yet.
            unsafe {
                (*op).flow = &raw const self.flow.steps[at];
                (*op).next = first.unwrap_or(self.ops.at(nowhere + at));
                (*op).outputs = ways.len();
                if !ways.is_empty() {
                    (*op).edges = self.edges.at(ways.start);
                }
                for (edge, &target) in ways.zip(&step.targets) {
                    (*self.edges.at(edge)).op =
                        op_of(target).map_or(ptr::null(), <*mut Op>::cast_const);
                }
                // Packets for an output 0 that is not connected come back to their element's account.
                (*self.ops.at(nowhere + at)).local = op.cast();
            }
        }
        for (lot, at) in layout.waiting().enumerate() {
            // SAFETY: as above.
            unsafe { (*self.ops.at(at)).lot = self.lots.at(lot) };
        }
        for at in 0..nowhere + steps {
            // SAFETY: as above.
            unsafe { (*self.ops.at(at)).state = self.state.at(0) };
        }
        for out in 0..layout.outs.len() {
            // SAFETY: as above.
            unsafe { (*self.ops.at(steps + out)).local = self.outs.at(out).cast() };
        }
    }

    /// Makes the steps use these nodes' elements and locals, until they are linked with others.
    pub(crate) fn link(&mut self, nodes: &mut [Option<Box<dyn Node>>]) {
        for at in 0..self.entries.len() {
            let op = self.ops.at(at);
            // SAFETY: no step runs.
            unsafe {
                let node = nodes.get_mut((*op).id).and_then(Option::as_mut);
                if let Some((element, local)) = node.and_then(|node| node.parts()) {
                    ((*op).element, (*op).local) = (element, local);
                }
            }
        }
    }

    /// What was counted, for who adds it up.
    pub(crate) fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    /// The step that is entered at a frame.
    #[inline]
    pub(super) fn entry_at(&self, frame: usize) -> Option<usize> {
        self.entry_of.get(frame).copied().filter(|&at| at != NOWHERE).map(|at| at as usize)
    }

    /// Whether the next batch that enters at a step goes through the program; else through its elements one by
    /// one.
    #[inline]
    pub(super) fn takes(&mut self, at: usize, cx: &Context) -> bool {
        let Some(entry) = self.entries.get_mut(at) else { return false };
        entry.turn = entry.turn.saturating_add(1);
        if entry.turn > SAMPLE && cx.counts_cycles() {
            entry.turn = 0;
            self.share_out(at, cx);
            return false;
        }
        if entry.turn.is_multiple_of(SHARE_OUT) {
            self.share_out(at, cx);
        }
        !cx.is_pending(&self.entries[at].inside)
    }

    /// Takes all packets of a batch through the program, from the step at which they enter. They leave it for the
    /// inputs that follow.
    #[inline]
    pub(super) fn run(&mut self, at: usize, cx: &mut Context, batch: &mut Batch) {
        let entry = &self.entries[at];
        let op: *const Op = self.ops.at(at);
        let before = batch.len();
        let state = self.state.at(0);
        // SAFETY: no step runs.
        unsafe { *state = Run::new(cx, &self.outs, entry) };
        batch.take_each(|packet| {
            // SAFETY: the step is linked, and while steps run they alone use the state.
            unsafe {
                step::go(op, packet);
                !(*state).is_stopped()
            }
        });
        for &step in &entry.waits {
            let op = self.ops.at(step);
            // SAFETY: the step is linked, and no other runs.
            unsafe {
                (*state).go_on();
                let left = Lot::leave((*op).lot, op, || (*state).is_stopped());
                if let Some(left) = left {
                    // They have been here, and come again.
                    self.flow.steps[step].entered.add((left.len() as u64).wrapping_neg());
                    (*(*state).cx).waiting().put_back(self.entries[step].frame, left);
                }
            }
        }
        let left = batch.len();
        let flow = &self.flow.steps[at];
        flow.entered.add((before - left) as u64);
        flow.batches.add(1);
        for &edge in &entry.edges {
            self.flow.edges[edge].note_batch();
        }
        for &step in &entry.joins {
            self.flow.note_batch_at(step);
        }
        for &step in &entry.ends {
            let op = self.ops.at(step);
            // SAFETY: the step is linked, and no other runs.
            unsafe {
                if let Some(end) = (*op).end {
                    end(op, cx);
                }
            }
        }
        for &out in &entry.outs {
            // SAFETY: no step runs.
            unsafe { (*self.outs.at(out)).hand_over(cx) };
        }
        if left > 0 {
            let rest = std::mem::replace(batch, cx.take_batch());
            cx.waiting().put_back(entry.frame, rest);
        }
    }

    /// Adds what a run has cost.
    #[inline]
    pub(super) fn add_cycles(&mut self, at: usize, cycles: u64) {
        if let Some(entry) = self.entries.get_mut(at) {
            entry.cycles = entry.cycles.wrapping_add(cycles);
        }
    }

    /// Shares the cycles of all entries out among their elements, for who reads them.
    pub(super) fn share_all_out(&mut self, cx: &Context) {
        (0..self.entries.len()).for_each(|at| self.share_out(at, cx));
    }

    /// Shares the cycles of an entry's runs out among its elements, as the batches that went through them one by
    /// one have cost.
    fn share_out(&mut self, at: usize, cx: &Context) {
        let entry = &mut self.entries[at];
        let mut left = std::mem::take(&mut entry.cycles);
        if left == 0 {
            return;
        }
        let all = u128::from(left);
        let shares = &mut self.shares;
        let own = |&id: &usize| cx.stats_of(id).cycles.get().wrapping_sub(shares[id]);
        let own: Vec<u64> = entry.elements.iter().map(own).collect();
        let sum: u128 = own.iter().copied().map(u128::from).sum::<u128>().max(1);
        let last = entry.elements.len().saturating_sub(1);
        for (n, (&id, own)) in entry.elements.iter().zip(own).enumerate() {
            let part = u64::try_from(all * u128::from(own) / sum).unwrap_or(left).min(left);
            let part = if n == last { left } else { part };
            left -= part;
            cx.stats_of(id).cycles.add(part);
            shares[id] = shares[id].wrapping_add(part);
        }
    }
}
