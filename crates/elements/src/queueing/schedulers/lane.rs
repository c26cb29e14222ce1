//! Packets on their way from one input through a scheduler.
//!
//! A scheduler that asks for one packet after the other pays for a pull with each. So it works out how many packets of
//! each input it will give by the end of the pull that it is in, asks for as many at a time, and gives them in
//! the order in which it would have asked for them one by one. It asks for no packet that it will not give in this
//! very pull: the others stay in the queue, which counts them, and drops packets when it has no room.

use std::collections::VecDeque;

use millrace_core::{Batch, Context, Packet};

/// Packets of one input. Between two pulls there are none.
#[derive(Debug, Default)]
pub struct Lane {
    packets: VecDeque<Packet>,
    /// It has been asked in vain during this pull.
    is_out: bool,
}

impl Lane {
    /// Makes lanes for so many inputs ready for a pull.
    pub(super) fn begin(lanes: &mut Vec<Self>, inputs: usize) {
        lanes.resize_with(inputs, Self::default);
        lanes.iter_mut().for_each(|lane| lane.is_out = false);
    }

    /// Asks the input for packets until there are so many, or it has none.
    pub(super) fn fill(&mut self, cx: &mut Context, input: usize, wanted: usize, some: &mut Batch) {
        while !self.is_out && self.packets.len() < wanted {
            self.is_out = cx.pull(input, wanted - self.packets.len(), some) == 0;
            self.packets.extend(some.drain());
        }
    }

    /// As [`fill`](Self::fill), whether the input was asked in vain before or not.
    pub(super) fn refill(
        &mut self,
        cx: &mut Context,
        input: usize,
        wanted: usize,
        some: &mut Batch,
    ) {
        self.is_out = false;
        self.fill(cx, input, wanted, some);
    }

    /// Whether the input has been asked in vain.
    pub(super) fn is_out(&self) -> bool {
        self.is_out
    }

    /// How many packets there are.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes the first packet.
    pub(super) fn next(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// Moves so many packets, if there are, to a batch that has room for them. Returns how many.
    pub(super) fn give(&mut self, count: usize, batch: &mut Batch) -> usize {
        let count = count.min(self.packets.len()).min(batch.room());
        for packet in self.packets.drain(..count) {
            // There is room.
            let _ = batch.push(packet);
        }
        count
    }
}
