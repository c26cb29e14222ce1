//! A sequence of packets, stored in the batches in which they arrived. A batch that is stored in an empty sequence and
//! taken as a whole is passed through without touching its packets.

use std::collections::VecDeque;

use millrace_core::{Batch, Packet};

/// A sequence of packets.
#[derive(Default)]
pub(super) struct Chunks {
    /// None of them is empty.
    batches: VecDeque<Batch>,
    len: usize,
    /// An empty batch for the next arrival.
    spare: Option<Batch>,
}

impl Chunks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the first `count` packets of a batch, or all if it has fewer.
    pub(super) fn append(&mut self, batch: &mut Batch, count: usize) {
        let count = count.min(batch.len());
        if count == 0 {
            return;
        }
        self.len += count;
        if let Some(last) = self.batches.back_mut()
            && last.room() >= count
        {
            batch.drain_front(count).move_to(last);
            return;
        }
        let mut new = self.spare.take().unwrap_or_default();
        match count == batch.len() {
            true => std::mem::swap(&mut new, batch),
            false => {
                batch.drain_front(count).move_to(&mut new);
            }
        }
        self.batches.push_back(new);
    }

    /// Puts a packet at the front.
    pub(super) fn push_front(&mut self, packet: Packet) {
        let mut new = self.spare.take().unwrap_or_default();
        // It is empty.
        let _ = new.push(packet);
        if let Some(first) = self.batches.front_mut()
            && first.room() > 0
        {
            new.append(first);
            std::mem::swap(&mut new, first);
            self.spare = Some(new);
        } else {
            self.batches.push_front(new);
        }
        self.len += 1;
    }

    /// Moves packets from the front to the end of a batch, at most `max` and no more than the batch has room for.
    pub(super) fn take(&mut self, max: usize, batch: &mut Batch) {
        let mut left = max.min(batch.room());
        while left > 0
            && let Some(first) = self.batches.front_mut()
        {
            let taken = left.min(first.len());
            if batch.is_empty() && taken == first.len() {
                std::mem::swap(batch, first);
            } else {
                first.drain_front(taken).move_to(batch);
            }
            left -= taken;
            self.len -= taken;
            if first.is_empty() {
                self.spare = self.batches.pop_front();
            }
        }
    }

    /// Frees `count` packets from the front, or all if there are fewer.
    pub(super) fn free_front(&mut self, count: usize) {
        let mut left = count.min(self.len);
        let mut gone = self.spare.take().unwrap_or_default();
        while left > 0 {
            let before = self.len;
            self.take(left, &mut gone);
            left -= before - self.len;
            gone.clear();
        }
        self.spare = Some(gone);
    }

    /// Removes the last packet.
    pub(super) fn pop_back(&mut self) -> Option<Packet> {
        let last = self.batches.back_mut()?;
        let packet = last.pop()?;
        self.len -= 1;
        if last.is_empty() {
            self.spare = self.batches.pop_back();
        }
        Some(packet)
    }

    /// Frees packets from the end until at most `keep` are left.
    pub(super) fn truncate(&mut self, keep: usize) {
        while self.len > keep
            && let Some(last) = self.batches.back_mut()
        {
            let freed = (self.len - keep).min(last.len());
            last.truncate(last.len() - freed);
            self.len -= freed;
            if last.is_empty() {
                self.spare = self.batches.pop_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize, usize),
        Front,
        Take(usize, usize),
        Back,
        Truncate(usize),
        FreeFront(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0usize..=256, 0usize..300).prop_map(|(len, count)| Step::Append(len, count)),
            1 => Just(Step::Front),
            4 => (0usize..300, 0usize..=256).prop_map(|(max, held)| Step::Take(max, held)),
            1 => Just(Step::Back),
            1 => (0usize..600).prop_map(Step::Truncate),
            1 => (0usize..600).prop_map(Step::FreeFront),
        ]
    }

    proptest! {
        /// The sequence behaves like a queue of single packets.
        #[test]
        fn behaves_like_a_queue_of_packets(steps in prop::collection::vec(step(), 0..40)) {
            let (mut chunks, mut oracle) = (Chunks::default(), VecDeque::new());
            let mut next = 0u32;
            let mut new = || {
                next += 1;
                (next, Packet::from_bytes(&next.to_be_bytes()).unwrap())
            };
            let numbers = |batch: &Batch| -> Vec<u32> {
                batch.iter().map(|p| u32::from_be_bytes(p.data().try_into().unwrap())).collect()
            };
            for step in steps {
                match step {
                    Step::Append(len, count) => {
                        let mut batch = Batch::new();
                        for at in 0..len {
                            let (number, packet) = new();
                            batch.push(packet).unwrap();
                            if at < count {
                                oracle.push_back(number);
                            }
                        }
                        chunks.append(&mut batch, count);
                        prop_assert_eq!(batch.len(), len.saturating_sub(count));
                    }
                    Step::Front => {
                        let (number, packet) = new();
                        oracle.push_front(number);
                        chunks.push_front(packet);
                    }
                    Step::Take(max, held) => {
                        let mut batch = Batch::new();
                        (0..held).for_each(|_| batch.push(new().1).unwrap());
                        let before = numbers(&batch);
                        chunks.take(max, &mut batch);
                        let n = max.min(256 - held).min(oracle.len());
                        let wanted: Vec<u32> = before.into_iter().chain(oracle.drain(..n)).collect();
                        prop_assert_eq!(numbers(&batch), wanted);
                    }
                    Step::Back => {
                        let last = chunks.pop_back().map(|p| p.data().to_vec());
                        let wanted = oracle.pop_back().map(|number| number.to_be_bytes().to_vec());
                        prop_assert_eq!(last, wanted);
                    }
                    Step::Truncate(keep) => {
                        chunks.truncate(keep);
                        oracle.truncate(keep);
                    }
                    Step::FreeFront(count) => {
                        chunks.free_front(count);
                        oracle.drain(..count.min(oracle.len()));
                    }
                }
                prop_assert_eq!(chunks.len(), oracle.len());
                prop_assert_eq!(chunks.is_empty(), oracle.is_empty());
                prop_assert!(chunks.batches.iter().all(|batch| !batch.is_empty()));
            }
        }
    }
}
