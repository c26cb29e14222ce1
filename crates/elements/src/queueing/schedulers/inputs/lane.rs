//! Packets on their way from one input through a scheduler.
//!
//! A scheduler that pulled packets one by one would pay for one pull per packet. Instead, it computes how many packets
//! of each input it will give by the end of the current pull, pulls that many at a time, and gives them in the order in
//! which it would have pulled them one by one. It pulls no packet that it will not give in this same pull: the others
//! stay in the queue, which counts them, and drops packets when it is full.

use std::collections::VecDeque;

use millrace_core::{Batch, Context, Packet};

/// Packets of one input. Empty between two pulls.
#[derive(Debug, Default)]
pub struct Lane {
    packets: VecDeque<Packet>,
    /// The input had no packets during this pull.
    is_out: bool,
}

impl Lane {
    /// Prepares lanes for `inputs` inputs for a pull.
    pub(crate) fn begin(lanes: &mut Vec<Self>, inputs: usize) {
        lanes.resize_with(inputs, Self::default);
        lanes.iter_mut().for_each(|lane| lane.is_out = false);
    }

    /// Pulls from the input until there are `wanted` packets, or the input has none.
    pub(crate) fn fill(&mut self, cx: &mut Context, input: usize, wanted: usize, some: &mut Batch) {
        while !self.is_out && self.packets.len() < wanted {
            self.is_out = cx.pull(input, wanted - self.packets.len(), some) == 0;
            self.packets.extend(some.drain());
        }
    }

    /// Like [`fill`](Self::fill), but tries again even if the input had no packets before.
    pub(crate) fn refill(
        &mut self,
        cx: &mut Context,
        input: usize,
        wanted: usize,
        some: &mut Batch,
    ) {
        self.is_out = false;
        self.fill(cx, input, wanted, some);
    }

    /// Whether the input had no packets during this pull.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out
    }

    /// How many packets there are.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes the first packet.
    pub(crate) fn next(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// Moves up to `count` packets to a batch, as many as fit. Returns how many.
    pub(crate) fn give(&mut self, count: usize, batch: &mut Batch) -> usize {
        let count = count.min(self.packets.len()).min(batch.room());
        for packet in self.packets.drain(..count) {
            // There is room.
            let _ = batch.push(packet);
        }
        count
    }
}
