//! Where batches wait between elements, and which element runs next.

use std::collections::VecDeque;

use crate::memory::{Batch, Packet};

/// The order in which inputs with waiting packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Upstream before downstream: packets that several paths leave at an input are processed together.
    Merged,
    /// Each packet goes its whole way before the next one of its batch starts, as in Click. Used while an
    /// element shows packets one by one, which is slow anyway; and on virtual time, where speed does not
    /// matter, for all graphs with elements whose order of effects is visible.
    PacketByPacket,
}

/// The batches of one thread that wait at push inputs.
pub(crate) struct Waiting {
    order: Order,
    frames: Vec<Frame>,
    /// One bit per frame, set if it has packets (`Merged`).
    pending: Vec<u64>,
    /// Batches to run, the next one last (unless `Merged`).
    stack: Vec<(u32, Batch)>,
    /// What the running element has sent, in the order of first sending (unless `Merged`).
    sent: Vec<(u32, Batch)>,
    /// Empty batches for reuse; the last one used comes first, because it is in the cache.
    spare: Vec<Batch>,
}

/// The packets that wait at one push input.
#[derive(Default)]
struct Frame {
    /// Full batches that arrived before `last`.
    full: VecDeque<Batch>,
    last: Option<Batch>,
}

impl Frame {
    #[cold]
    fn keep(&mut self, full: Batch) {
        self.full.push_back(full);
    }
}

impl Waiting {
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            order: Order::Merged,
            frames: (0..frames).map(|_| Frame::default()).collect(),
            pending: vec![0; frames.div_ceil(64)],
            stack: Vec::new(),
            sent: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Whether packets that several paths leave at an input are processed together.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.order == Order::Merged
    }

    /// Whether each packet goes its whole way before the next one of its batch.
    #[inline]
    pub(crate) fn goes_singly(&self) -> bool {
        self.order == Order::PacketByPacket
    }

    /// Whether this is the current order.
    #[inline]
    pub(crate) fn has_order(&self, order: Order) -> bool {
        self.order == order
    }

    /// Changes the order, unless packets wait.
    #[cold]
    pub(crate) fn set_order(&mut self, order: Order) {
        let pending = self.pending.iter().any(|&bits| bits != 0);
        if !pending && self.stack.is_empty() && self.sent.is_empty() {
            self.order = order;
        }
    }

    /// Adds a packet to those that wait at `frame`.
    #[inline]
    pub(crate) fn add(&mut self, frame: u32, packet: Packet) {
        let batch = match self.order {
            Order::Merged => self.frames[frame as usize].last.as_mut(),
            Order::PacketByPacket => None,
        };
        let refused = match batch {
            Some(batch) => batch.push(packet).err(),
            None => Some(packet),
        };
        if let Some(packet) = refused {
            self.add_to_new(frame, packet);
        }
    }

    #[inline(never)]
    fn add_to_new(&mut self, frame: u32, packet: Packet) {
        let mut batch = self.take_spare();
        // An empty batch takes a packet.
        let _ = batch.push(packet);
        self.add_last(frame, batch);
    }

    /// Moves all packets of `batch` to those that wait at `frame`.
    #[inline]
    pub(crate) fn add_batch(&mut self, frame: u32, batch: &mut Batch) {
        match self.order {
            Order::Merged => {
                if let Some(last) = &mut self.frames[frame as usize].last {
                    last.append(batch);
                }
            }
            Order::PacketByPacket => {
                batch.drain().for_each(|packet| self.add_to_new(frame, packet))
            }
        }
        if !batch.is_empty() {
            let spare = self.take_spare();
            self.add_last(frame, std::mem::replace(batch, spare));
        }
    }

    #[inline]
    fn add_last(&mut self, frame: u32, batch: Batch) {
        match self.order {
            Order::Merged => {
                let waiting = &mut self.frames[frame as usize];
                if let Some(full) = waiting.last.replace(batch) {
                    waiting.keep(full);
                }
                self.pending[frame as usize / 64] |= 1 << (frame % 64);
            }
            Order::PacketByPacket => self.sent.push((frame, batch)),
        }
    }

    /// Puts a batch in front of those that wait at `frame`.
    #[cold]
    pub(crate) fn put_back(&mut self, frame: u32, batch: Batch) {
        match self.order {
            Order::Merged => {
                let waiting = &mut self.frames[frame as usize];
                match waiting.last {
                    Some(_) => waiting.full.push_front(batch),
                    None => waiting.last = Some(batch),
                }
                self.pending[frame as usize / 64] |= 1 << (frame % 64);
            }
            Order::PacketByPacket => self.stack.push((frame, batch)),
        }
    }

    /// Returns the packet that waits at one of the frames, given as words of bits, if it is the only one.
    pub(crate) fn take_lone(&mut self, frames: &[(usize, u64)]) -> Option<(usize, Packet)> {
        if self.order != Order::Merged {
            return None;
        }
        let mut waiting = frames.iter().map(|&(word, bits)| (word, self.pending[word] & bits));
        let (word, bits) = waiting.find(|&(_, bits)| bits != 0)?;
        let frame = word * 64 + bits.trailing_zeros() as usize;
        let alone = bits.is_power_of_two() && waiting.all(|(_, bits)| bits == 0);
        let Frame { full, last } = &mut self.frames[frame];
        let mut batch = last.take_if(|batch| alone && full.is_empty() && batch.len() == 1)?;
        self.pending[word] &= !bits;
        let packet = batch.pop();
        self.give_spare(batch);
        Some((frame, packet?))
    }

    /// Whether packets wait at one of the frames, given as words of bits; or, where each packet goes its
    /// whole way at once, whether the running element has sent any.
    #[inline]
    pub(crate) fn any_pending(&self, frames: &[(usize, u64)]) -> bool {
        match self.order {
            Order::Merged => frames.iter().any(|&(word, bits)| self.pending[word] & bits != 0),
            Order::PacketByPacket => !self.sent.is_empty(),
        }
    }

    /// Returns the batch that runs next, and the frame that it waits at.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u32, Batch)> {
        match self.order {
            Order::Merged => self.next_merged(),
            Order::PacketByPacket => {
                self.stack.extend(self.sent.drain(..).rev());
                self.stack.pop()
            }
        }
    }

    #[inline]
    fn next_merged(&mut self) -> Option<(u32, Batch)> {
        let (word, bits) = self.pending.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let frame = word * 64 + bits.trailing_zeros() as usize;
        let waiting = &mut self.frames[frame];
        let batch = match waiting.full.pop_front() {
            Some(full) => Some(full),
            None => {
                *bits &= *bits - 1;
                waiting.last.take()
            }
        };
        Some((frame as u32, batch?))
    }

    /// An empty batch.
    #[inline]
    pub(crate) fn take_spare(&mut self) -> Batch {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns an empty batch for reuse.
    #[inline]
    pub(crate) fn give_spare(&mut self, batch: Batch) {
        const KEPT: usize = 64;
        if self.spare.len() < KEPT {
            self.spare.push(batch);
        }
    }
}
