//! Rings that carry packets from any threads to one. Each sending thread has a ring of its own, so
//! that no two threads write to the same ring and the packets of one thread stay in order.

mod calling;

use millrace_core::{Batch, Context, Count, Lock, Packet, PerThread, Task};
use rtrb::{Consumer, Producer, RingBuffer};

pub(super) use calling::call;

/// Packets on their way to one thread.
pub(super) struct Rings {
    /// The capacity of one ring, in packets.
    capacity: usize,
    /// The consuming ends. The one thread that takes packets locks them for a whole visit.
    outlets: Lock<Vec<Consumer<Packet>>>,
    given: PerThread<Count>,
    /// Written under the lock of the outlets.
    taken: Count,
}

/// A sending thread's end of its ring. The ring is created when the thread first sends packets.
#[derive(Default)]
pub(super) struct Inlet {
    producer: Option<Producer<Packet>>,
    /// Packets put in so far.
    given: u64,
}

impl Rings {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            outlets: Lock::default(),
            given: PerThread::default(),
            taken: Count::default(),
        }
    }

    /// Moves as many packets as fit into the thread's ring, from the front of the batch. Returns
    /// how many. Call [`call`] afterwards.
    pub(super) fn give(&self, cx: &Context, inlet: &mut Inlet, batch: &mut Batch) -> usize {
        let producer = inlet.producer.get_or_insert_with(|| self.connect());
        let most = batch.len().min(producer.slots());
        let given = match producer.write_chunk_uninit(most) {
            // The slots just counted are still free: only this thread fills them.
            Ok(chunk) => chunk.fill_from_iter(batch.drain_front(most)),
            Err(_) => 0,
        };
        inlet.given += given as u64;
        self.given.mine(cx).add(given as u64);
        given
    }

    /// Fills an empty batch with at most `burst` packets from each ring. `first` is the ring to
    /// start with; each call advances it.
    pub(super) fn take(&self, first: &mut usize, burst: usize, batch: &mut Batch) -> usize {
        let mut outlets = self.outlets.lock();
        let rings = outlets.len();
        let start = first.checked_rem(rings).unwrap_or(0);
        *first = start + 1;
        let (before, after) = outlets.split_at_mut(start);
        for outlet in after.iter_mut().chain(before) {
            let most = outlet.slots().min(burst).min(batch.room());
            if let Ok(chunk) = outlet.read_chunk(most) {
                for packet in chunk {
                    // The batch has room for them.
                    let _ = batch.push(packet);
                }
            }
        }
        self.taken.add(batch.len() as u64);
        batch.len()
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.outlets.lock().iter().all(Consumer::is_empty)
    }

    /// The number of waiting packets.
    pub(super) fn len(&self) -> usize {
        self.outlets.lock().iter().map(Consumer::slots).sum()
    }

    /// Packets that were put in but not taken out.
    pub(super) fn held(&self) -> usize {
        let _still = self.outlets.lock();
        self.given.total().saturating_sub(self.taken.get()) as usize
    }

    fn connect(&self) -> Producer<Packet> {
        let (producer, consumer) = RingBuffer::new(self.capacity);
        self.outlets.lock().push(consumer);
        producer
    }
}

impl Inlet {
    /// Whether no packet from this thread is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Packets put in, and how many of them have been taken out.
    pub(super) fn handed_over(&self) -> (u64, u64) {
        (self.given, self.given - self.waiting() as u64)
    }

    fn waiting(&self) -> usize {
        let producer = self.producer.as_ref();
        producer.map_or(0, |producer| producer.buffer().capacity() - producer.slots())
    }
}

/// Lets the consuming task rest until packets are sent again.
pub(super) fn rest(task: &Task, rings: &Rings) {
    calling::rest(task, || rings.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_served_in_turn_and_keep_order() {
        let rings = Rings::new(8);
        let mut inlets = [rings.connect(), rings.connect()];
        for (at, inlet) in inlets.iter_mut().enumerate() {
            for number in 0..6u8 {
                inlet.push(Packet::from_bytes(&[at as u8, number]).unwrap()).unwrap();
            }
        }
        let mut first = 0;
        let mut batch = Batch::new();
        let mut visit = || {
            let mut batch = Batch::new();
            rings.take(&mut first, 4, &mut batch);
            batch.iter().map(|packet| (packet.data()[0], packet.data()[1])).collect::<Vec<_>>()
        };
        let visits = [visit(), visit(), visit()];
        let run = |ring: u8, numbers: std::ops::Range<u8>| numbers.map(move |n| (ring, n));
        assert_eq!(visits[0], run(0, 0..4).chain(run(1, 0..4)).collect::<Vec<_>>());
        assert_eq!(visits[1], run(1, 4..6).chain(run(0, 4..6)).collect::<Vec<_>>());
        assert!(visits[2].is_empty() && rings.is_empty());
        assert_eq!(rings.take(&mut 7, 4, &mut batch), 0);
    }
}
