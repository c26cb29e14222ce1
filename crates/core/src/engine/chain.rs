//! Elements in a row that run as one: what the graph optimiser makes, as one thread runs it.

use super::Context;
use crate::element::FusedRow;
use crate::memory::Batch;

/// A chain of elements, entered where its first one is.
///
/// The elements keep their places in the graph beside: who sends to the middle of the chain, or takes
/// another way out, does so as ever. So that nobody is overtaken, the chain is not used while packets wait
/// inside it.
pub(crate) struct Chain {
    frame: u32,
    links: Vec<Link>,
    /// The fused elements, in order: id, and how many packets of the last batch went on.
    members: Vec<(usize, usize)>,
    row: Option<Box<dyn FusedRow>>,
    /// The inputs inside the chain: words of the bits of pending frames, and the bits.
    inside: Vec<(usize, u64)>,
    turn: u32,
    /// Cycles that are not yet shared out among the elements.
    cycles: u64,
    /// For each link, the cycles that it got as a share.
    shares: Vec<u64>,
}

/// One element of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) element: usize,
    /// The output that leads on.
    pub(crate) output: usize,
    /// Whether it only passes packets on.
    pub(crate) transparent: bool,
}

/// Every so often a batch goes through the elements one by one, to see what each of them costs.
const SAMPLE: u32 = 128;

/// Every so many batches the cycles of the chain are shared out among its elements.
const SHARE_OUT: u32 = 32;

impl Chain {
    /// A chain that is entered at `frame`. `inside` are the frames of the elements behind the first.
    pub(crate) fn new(
        frame: u32,
        links: Vec<Link>,
        row: Option<Box<dyn FusedRow>>,
        inside: &[u32],
    ) -> Self {
        let mut words: Vec<(usize, u64)> = Vec::new();
        for frame in inside {
            let (word, bit) = (*frame as usize / 64, 1 << (frame % 64));
            match words.iter_mut().find(|known| known.0 == word) {
                Some((_, bits)) => *bits |= bit,
                None => words.push((word, bit)),
            }
        }
        let fused = links.iter().filter(|link| !link.transparent);
        Self {
            frame,
            members: fused.map(|link| (link.element, 0)).collect(),
            row,
            inside: words,
            turn: SAMPLE,
            cycles: 0,
            shares: vec![0; links.len()],
            links,
        }
    }

    /// Whether the next batch goes through the chain at once; else through its elements one by one.
    pub(super) fn takes(&mut self, cx: &Context) -> bool {
        self.turn = self.turn.saturating_add(1);
        if self.turn > SAMPLE && cx.counts_cycles() {
            self.turn = 0;
            self.share_out(cx);
            return false;
        }
        if self.turn.is_multiple_of(SHARE_OUT) {
            self.share_out(cx);
        }
        !cx.is_pending(&self.inside)
    }

    /// Takes a batch through the chain, and sends on what comes out.
    pub(super) fn run(&mut self, cx: &mut Context, batch: &mut Batch) {
        let mut treated = batch.len();
        cx.swap_inside(&mut self.inside);
        let stopped = self.row.as_mut().and_then(|row| row.run(cx, &mut self.members, batch));
        cx.swap_inside(&mut self.inside);
        if let Some(kept) = stopped {
            treated -= self.put_back(cx, batch, kept);
        }
        self.count(cx, treated);
        if let Some(last) = self.links.last() {
            cx.run_as(last.element, |cx| cx.push_batch(last.output, batch));
        }
    }

    /// Lets the packets behind the first `kept` wait where they came from. Returns how many.
    #[cold]
    fn put_back(&self, cx: &mut Context, batch: &mut Batch, kept: usize) -> usize {
        let mut rest = cx.take_batch();
        let untreated = batch.drain_run(kept..batch.len()).move_to(&mut rest);
        cx.waiting().put_back(self.frame, rest);
        untreated
    }

    /// Counts for each element what came in and went on.
    fn count(&self, cx: &Context, treated: usize) {
        let mut here = treated;
        let mut members = self.members.iter();
        let last = self.links.len().saturating_sub(1);
        for (at, link) in self.links.iter().enumerate() {
            let stats = cx.stats_of(link.element);
            stats.received.add(here as u64);
            stats.batches.add(u64::from(here > 0));
            if !link.transparent {
                here = members.next().map_or(0, |member| member.1);
            }
            if at < last {
                stats.sent.add(here as u64);
            }
        }
    }

    /// Adds what a run has cost.
    pub(super) fn add_cycles(&mut self, cycles: u64) {
        self.cycles = self.cycles.wrapping_add(cycles);
    }

    /// Shares the cycles of the chain's runs out among its elements, as the batches that went through them
    /// one by one have cost.
    pub(super) fn share_out(&mut self, cx: &Context) {
        let all = std::mem::take(&mut self.cycles);
        if all == 0 {
            return;
        }
        let own = |(link, share): (&Link, &u64)| {
            cx.stats_of(link.element).cycles.get().wrapping_sub(*share)
        };
        let own: Vec<u64> = self.links.iter().zip(&self.shares).map(own).collect();
        let sum: u128 = own.iter().copied().map(u128::from).sum::<u128>().max(1);
        let mut left = all;
        let last = self.links.len().saturating_sub(1);
        for (at, (link, own)) in self.links.iter().zip(own).enumerate() {
            let part = u128::from(all) * u128::from(own) / sum;
            let part = u64::try_from(part).unwrap_or(left).min(left);
            let part = if at == last { left } else { part };
            left -= part;
            cx.stats_of(link.element).cycles.add(part);
            if let Some(share) = self.shares.get_mut(at) {
                *share = share.wrapping_add(part);
            }
        }
    }
}
