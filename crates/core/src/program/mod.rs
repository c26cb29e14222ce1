//! The part of the graph that processes packets one by one, as one thread runs it.
//!
//! Each element that is [`PerPacket`](crate::PerPacket) is a *step*. A step consists of the loop that the
//! compiler generates for its class, a pointer to the element and one to the thread's
//! [`Local`](crate::Element::Local), and the steps that follow at its outputs. The packets of a batch take
//! seats in a `Tile`, where their address, length and headers stay at hand ([`View`](crate::View))
//! while they go from step to step. A step runs once per tile, on the packets that have arrived at it, and
//! decides for each by which output it continues. So no packet is moved, no function is called per packet,
//! and the processor works on several packets of a step at a time. A configuration costs the sum of its
//! elements, in any combination: no combinations are listed in advance, and nothing is compiled at run time.
//!
//! - **Branches and joins**: a mask at each step has a bit for each packet of the tile that waits there. A
//!   branch divides a mask, and a join unites two. A walk through a mask finds packets in the order in which
//!   they arrived. Steps run upstream ones first, so all packets for a step are there when it runs.
//! - **Rare work** - a packet to be dropped, an ICMP error, a fragment - is done by the element's
//!   [`aside`](crate::PerPacket::aside), with the engine, before the packets behind it are processed. A
//!   packet that continues takes its seat again.
//! - **No packet is overtaken.** A packet that an element sends aside to an output comes after those that
//!   have already gone to that output. If it sends several packets to a later step, the rest of the batch
//!   waits, outside of the program, and follows them. While packets wait inside a program, elements run one
//!   by one.
//! - **Cycles** of the program are divided among its elements in proportion to one batch in `SAMPLE`, which
//!   goes through them one by one.
//!   through them one by one.

#![allow(unsafe_code, reason = "steps point to elements of the class whose code they run")]

mod layout;
mod out;
mod step;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use self::layout::Layout;
use self::out::Out;
pub use self::step::Steps;
use self::tile::{Mask, Tile, places};
use crate::drops::Reason;
use crate::element::Way;
use crate::engine::Context;
use crate::graph::NOWHERE;
use crate::isa;
use crate::memory::Batch;
use crate::stats::NodeStats;
use std::ops::Range;

/// Processes the packets of the tile that wait at a step, and passes them to the next steps.
///
/// # Safety
/// The step is linked with an element of the class that this code belongs to.
type Step = unsafe fn(&mut Program, usize, &mut Context);

/// The work of a class at the end of a batch.
///
/// # Safety
/// See [`Step`].
type End = unsafe fn(&mut Program, usize, &mut Context);

/// The steps of one thread.
pub(crate) struct Program {
    /// The steps, upstream ones first; then one step for each exit.
    ops: Vec<Op>,
    /// How many of them are steps of elements.
    steps: usize,
    /// The step that follows at each output of each step, or [`NOWHERE`].
    targets: Vec<u32>,
    /// The exits of the program.
    outs: Vec<Out>,
    tile: Box<Tile>,
    /// One bit per step, set if packets wait there.
    pending: Vec<u64>,
    /// The packets that the running step has sent to each of its outputs, in the order of `targets`.
    sent: Vec<Mask>,
    /// Whether the rest of the batch must wait.
    stopped: bool,
    /// Packets that must wait outside of the program, and the frames where they wait.
    held: Vec<(u32, Batch)>,
    /// The number of the batch, and the step where it entered.
    batch: u64,
    entered: usize,
    entries: Vec<Entry>,
    /// For each frame the step that is entered there, or [`NOWHERE`].
    entry_of: Vec<u32>,
    /// For each element, its share of the cycles.
    shares: Vec<u64>,
}

/// One step. Its size is a power of two, so that its place is found by a shift.
#[repr(align(128))]
struct Op {
    /// The packets that wait here, and their number.
    waiting: Mask,
    count: u32,
    /// The step at output 0, or [`NOWHERE`].
    next: u32,
    step: Step,
    end: Option<End>,
    /// An element of the class that `step` and `end` are compiled for, once the step is linked.
    element: *const (),
    local: *mut (),
    /// The element's number in the router, or `usize::MAX` for an exit or a tap.
    id: usize,
    /// Its counts on this thread, once the step is linked.
    stats: *const NodeStats,
    /// The range of its outputs among those of all steps.
    outputs: Range<usize>,
    /// How many of them the element may choose from, and how many of these the loop over packets handles.
    choices: usize,
    fast: usize,
    /// The last batch of which packets were here.
    batch: u64,
    /// The number of the tap that this is, or `usize::MAX`.
    tap: usize,
}

impl Op {
    fn fast_outputs(&self) -> Range<usize> {
        self.outputs.start..self.outputs.start + self.fast
    }
}

// SAFETY: the pointers of a program lead to elements and counts, which are `Sync`, and to `Local`s, which are `Send`; and
// in its tile no packets are left between two batches.
unsafe impl Send for Program {}

/// Data for packets that enter at one step.
struct Entry {
    frame: u32,
    /// The inputs further on: indices of words of pending bits, and the bits.
    inside: Vec<(usize, u64)>,
    /// The exits that packets may reach.
    outs: Vec<usize>,
    /// The later steps to call at the end of a batch.
    ends: Vec<usize>,
    /// The elements that packets may reach.
    elements: Vec<usize>,
    turn: u32,
    /// Cycles that are not yet divided among the elements.
    cycles: u64,
}

/// One batch in this many goes through the elements one by one, to find the cost of each of them.
const SAMPLE: u32 = 1021;

/// After this many batches, the cycles of an entry are divided among its elements.
const SHARE_OUT: u32 = 32;

impl Program {
    /// Makes the steps use a context's elements, locals and counts, until they are linked again. The program then runs
    /// in this context alone.
    pub(crate) fn link(&mut self, cx: &mut Context) {
        for op in self.ops.iter_mut().take(self.steps) {
            // A tap has no element, and counts nothing.
            let node = cx.nodes_mut().get_mut(op.id).and_then(Option::as_mut);
            if let Some((element, local)) = node.and_then(|node| node.parts()) {
                (op.element, op.local, op.stats) = (element, local, cx.stats_of(op.id));
            }
        }
    }

    /// A program without steps, which all packets are offered to and which [takes](Self::takes) none.
    pub(crate) fn of_nobody(frames: usize, elements: usize) -> Self {
        let entry_of = vec![NOWHERE - 1; frames];
        Self { entry_of, ..Layout::default().program(frames, elements) }
    }

    /// Becomes another program for the same elements, not yet linked.
    pub(crate) fn give_way(&mut self, other: Program) {
        let shares = std::mem::take(&mut self.shares);
        *self = Program { shares, ..other };
    }

    /// The step that is entered at a frame.
    #[inline]
    pub(crate) fn entry_at(&self, frame: usize) -> Option<usize> {
        self.entry_of.get(frame).copied().filter(|&at| at != NOWHERE).map(|at| at as usize)
    }

    /// Whether the next batch that enters at a step goes through the program, or through its elements one by
    /// one.
    #[inline]
    pub(crate) fn takes(&mut self, at: usize, cx: &Context) -> bool {
        let Some(entry) = self.entries.get_mut(at) else { return false };
        entry.turn = entry.turn.saturating_add(1);
        if entry.turn > SAMPLE && cx.counts_cycles() {
            self.sample(at, cx);
            return false;
        }
        if entry.turn.is_multiple_of(SHARE_OUT) {
            self.share_out(at, cx);
        }
        !cx.is_pending(&self.entries[at].inside)
    }

    /// Makes the current batch, which enters at a step, go through the elements one by one: it then enters at
    /// the later ones.
    #[cold]
    fn sample(&mut self, at: usize, cx: &Context) {
        self.share_out(at, cx);
        self.entries[at].turn = 0;
        for index in 0..self.entries[at].inside.len() {
            let (word, mut bits) = self.entries[at].inside[index];
            while bits != 0 {
                let frame = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(step) = self.entry_at(frame) {
                    self.entries[step].turn = SAMPLE;
                }
            }
        }
    }

    /// Runs a batch through the steps, starting with number `at`. Packets that leave the program then wait at
    /// the inputs that follow.
    #[inline]
    pub(crate) fn run(&mut self, at: usize, cx: &mut Context, batch: &mut Batch) {
        self.batch = self.batch.wrapping_add(1);
        self.entered = at;
        self.stopped = false;
        while !batch.is_empty() && !self.stopped {
            let (seated, count) = self.tile.seat(batch);
            self.wait_at(at, seated, count);
            self.run_waiting(cx);
        }
        self.end(at, cx);
        if !batch.is_empty() {
            let rest = std::mem::replace(batch, cx.take_batch());
            cx.waiting().put_back(self.entries[at].frame, rest);
        }
        // In front of that.
        for (frame, batch) in self.held.drain(..) {
            cx.waiting().put_back(frame, batch);
        }
    }

    /// A step.
    #[inline(always)]
    fn op(&mut self, at: usize) -> &mut Op {
        debug_assert!(at < self.ops.len());
        // SAFETY: whoever asks got the number from this program: as an entry, a target, or a bit of `pending`.
        unsafe { self.ops.get_unchecked_mut(at) }
    }

    /// Adds `count` packets to those that wait at a step.
    #[inline(always)]
    fn wait_at(&mut self, at: usize, packets: Mask, count: u32) {
        let op = self.op(at);
        op.waiting |= packets;
        op.count += count;
        debug_assert!(at / 64 < self.pending.len());
        // SAFETY: there is a bit for each step, and this is the number of one (see `op`).
        *unsafe { self.pending.get_unchecked_mut(at / 64) } |= 1 << (at % 64);
    }

    /// Runs the steps at which packets wait, including those that get packets meanwhile. Steps lead only to
    /// later ones.
    #[inline]
    fn run_waiting(&mut self, cx: &mut Context) {
        for word in 0..self.pending.len() {
            while let bits @ 1.. = self.pending[word] {
                self.pending[word] &= bits - 1;
                let at = word * 64 + bits.trailing_zeros() as usize;
                // SAFETY: programs run after they were linked.
                unsafe { (self.op(at).step)(self, at, cx) };
            }
        }
    }

    /// Ends a batch that entered at a step.
    #[inline]
    fn end(&mut self, at: usize, cx: &mut Context) {
        // What elements send behind the batch comes behind it.
        for &out in &self.entries[at].outs {
            self.outs[out].hand_over(cx);
        }
        for index in 0..self.entries[at].ends.len() {
            self.end_step(self.entries[at].ends[index], cx);
        }
    }

    #[inline]
    fn end_step(&mut self, step: usize, cx: &mut Context) {
        let op = &self.ops[step];
        if let Some(end) = op.end.filter(|_| op.batch == self.batch) {
            // SAFETY: as in `run_waiting`.
            unsafe { end(self, step, cx) };
        }
    }

    /// Ends the batch, of one packet, at the steps that it has passed, before step `at` has visible effects.
    #[cold]
    fn end_in_front_of(&mut self, at: usize, cx: &mut Context) {
        for index in 0..self.entries[self.entered].ends.len() {
            let step = self.entries[self.entered].ends[index];
            if step < at {
                self.end_step(step, cx);
                // It is not to be called again behind the batch.
                self.ops[step].batch = 0;
            }
        }
    }

    /// Adds the cost of a run.
    #[inline]
    pub(crate) fn add_cycles(&mut self, at: usize, cycles: u64) {
        if let Some(entry) = self.entries.get_mut(at) {
            entry.cycles = entry.cycles.wrapping_add(cycles);
        }
    }

    /// Divides the cycles of all entries among their elements, for readers of the counts.
    pub(crate) fn share_all_out(&mut self, cx: &Context) {
        (0..self.entries.len()).for_each(|at| self.share_out(at, cx));
    }

    /// Divides the cycles of an entry's runs among its elements, in proportion to the batches that went
    /// through them one by one.
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

/// The work of a step around its element.
impl Program {
    /// The packets that have arrived at a step, and their number.
    ///
    /// # Safety
    /// The step is linked.
    #[inline(always)]
    unsafe fn enter(&mut self, at: usize) -> (Mask, u32) {
        let batch = self.batch;
        let op = self.op(at);
        let came = (std::mem::take(&mut op.waiting), std::mem::take(&mut op.count));
        // SAFETY: the step is linked, and the context with which it was, and which now runs it, holds the counts.
        let stats = unsafe { &*op.stats };
        stats.received.add(came.1.into());
        if op.batch != batch {
            op.batch = batch;
            stats.batches.add(1);
        }
        came
    }

    /// Adds packets to those that wait at the step after output 0.
    ///
    /// # Safety
    /// The step is linked.
    #[inline(always)]
    unsafe fn pass_on(&mut self, at: usize, packets: Mask, count: u32, cx: &mut Context) {
        let &mut Op { next, stats, .. } = self.op(at);
        if next == NOWHERE {
            return self.lose(at, packets, cx);
        }
        // SAFETY: as in `enter`.
        unsafe { &*stats }.sent.add(count.into());
        self.wait_at(next as usize, packets, count);
    }

    /// Adds packets, if there are any, to those that wait at the step after output 0.
    ///
    /// # Safety
    /// The step is linked.
    unsafe fn pass_on_some(&mut self, at: usize, packets: Mask, cx: &mut Context) {
        if packets != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.pass_on(at, packets, packets.count_ones(), cx) };
        }
    }

    /// Moves the packets that a step has sent to each of its outputs to the next steps.
    fn pass_on_sent(&mut self, at: usize, cx: &Context) {
        // The processor counts bits better than the compiler.
        isa::run(
            #[inline(always)]
            || self.pass_on_each_sent(at, cx),
        );
    }

    #[inline(always)]
    fn pass_on_each_sent(&mut self, at: usize, cx: &Context) {
        let mut sum = 0;
        let op = &self.ops[at];
        let (id, outputs) = (op.id, op.fast_outputs());
        let sent = self.sent.get_mut(outputs.clone()).unwrap_or_default();
        let targets = self.targets.get(outputs).unwrap_or_default();
        for (packets, &target) in sent.iter_mut().zip(targets) {
            let packets = std::mem::take(packets);
            if packets != 0 {
                let count = packets.count_ones();
                sum += count;
                let op = &mut self.ops[target as usize];
                op.waiting |= packets;
                op.count += count;
                self.pending[target as usize / 64] |= 1 << (target % 64);
            }
        }
        cx.stats_of(id).sent.add(sum.into());
    }

    /// Sends a packet the way that its element has chosen, if that leads to a step.
    fn send(&mut self, at: usize, way: Way, packet: Mask, cx: &Context) -> bool {
        let op = &self.ops[at];
        if way.port() >= op.choices {
            return false;
        }
        let target = self.targets[op.outputs.start + way.port()];
        if target == NOWHERE {
            return false;
        }
        cx.stats_of(op.id).sent.add(1);
        self.wait_at(target as usize, packet, 1);
        true
    }

    /// Hands over what a step has sent out of the program so far, so that packets that its element sends from
    /// now on come after them.
    fn hand_over_from(&mut self, at: usize, cx: &mut Context) {
        for output in self.ops[at].outputs.clone() {
            let mut target = self.targets[output] as usize;
            let Some(op) = self.ops.get(target).filter(|op| op.id == usize::MAX) else { continue };
            if op.tap != usize::MAX {
                let next = op.next as usize;
                // SAFETY: it is the step of a tap.
                unsafe { show(self, target, cx) };
                target = next;
            }
            if let Some(out) = target.checked_sub(self.steps) {
                // SAFETY: the step is one of those by which packets leave.
                unsafe { leave(self, target, cx) };
                self.outs[out].hand_over(cx);
            }
        }
    }

    /// Whether packets wait outside of the program for a step after this one.
    fn is_awaited(&self, at: usize, cx: &Context) -> bool {
        cx.is_pending(&self.entries[at].inside)
    }

    /// Gives a seat to the packet that waits outside of the program for a step after this one, if it is the
    /// only one. If a step has held packets back, that packet is from another branch, and its seat may be in
    /// front of packets that it must follow: it waits.
    fn adopt(&mut self, at: usize, place: usize, cx: &mut Context) {
        if self.stopped {
            return;
        }
        let waiting = cx.waiting().take_lone(&self.entries[at].inside);
        let Some((frame, packet)) = waiting else { return };
        let step = self.entry_of[frame] as usize;
        self.tile.put(place, packet);
        self.wait_at(step, 1 << place, 1);
    }

    /// Makes packets that have arrived at a step wait there, outside of the program, and the rest of the
    /// batch where it entered.
    fn hold_back(&mut self, at: usize, packets: Mask, cx: &mut Context) {
        self.stopped = true;
        if packets != 0 {
            cx.stats_of(self.ops[at].id)
                .received
                .add(u64::from(packets.count_ones()).wrapping_neg());
            let mut batch = cx.take_batch();
            // SAFETY: the packets that have come are in their seats, and no more than a batch has room for.
            unsafe { batch.fill(places(packets).map(|place| self.tile.take(place))) };
            self.held.push((self.entries[at].frame, batch));
        }
    }

    /// Drops packets for an output that is not connected.
    #[cold]
    fn lose(&mut self, at: usize, packets: Mask, cx: &mut Context) {
        cx.run_as(self.ops[at].id, |cx| {
            for place in places(packets) {
                // SAFETY: the packets that were sent are in their seats.
                cx.drop(unsafe { self.tile.take(place) }, Reason::Unconnected);
            }
        });
    }
}

/// The code of a step for a tap: shows the packets that wait there, in their seats, and passes them on.
unsafe fn show(program: &mut Program, at: usize, cx: &mut Context) {
    let op = &mut program.ops[at];
    let (packets, count) = (std::mem::take(&mut op.waiting), std::mem::take(&mut op.count));
    let (tap, next) = (op.tap, op.next as usize);
    if packets == 0 {
        return;
    }
    for place in places(packets) {
        // SAFETY: the packets that wait are in their seats.
        let packet = unsafe { program.tile.take(place) };
        cx.show(tap, &packet, count as usize);
        program.tile.put(place, packet);
    }
    program.wait_at(next, packets, count);
}

/// The code of a step for an exit of the program.
unsafe fn leave(program: &mut Program, at: usize, cx: &mut Context) {
    let op = &mut program.ops[at];
    let mask = std::mem::take(&mut op.waiting);
    op.count = 0;
    let out = at - program.steps;
    // SAFETY: the packets that wait are in their seats.
    unsafe { program.outs[out].take(&mut program.tile, mask, cx) };
}
