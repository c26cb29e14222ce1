//! CPUQueue - stores packets in a separate queue for each thread
//!
//! # Synopsis
//! `CPUQueue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets in one queue per pushing thread, each with room for CAPACITY packets. Pushing threads never
//! wait for each other. A pull takes packets from the queues in turn; packets of one thread stay in order. With several
//! outputs, the queue of thread t belongs to output t modulo the number of outputs.
//!
//! Like Queue, it notifies its pullers: an Unqueue sleeps while there is nothing for it.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets in each queue. Positional, default 128.
//!
//! # Ports
//! One push input, one or more pull outputs.
//!
//! # Handlers
//! - `length` (read): packets in all queues.
//! - `lengths` (read): one line for each thread that has pushed: its number and the packets in its queue.
//! - `capacity` (read): the CAPACITY argument.
//! - `drops` (read): packets dropped.
//!
//! # Drops
//! - queue full: the thread's queue was full.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> CPUQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, CPUSwitch, Pipeliner

use std::collections::VecDeque;
use std::sync::{MutexGuard, OnceLock};

use millrace_core::stats::MAX_THREADS;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Lock, Notifier, Packet, Reason, Setup,
    register,
};

/// The element; its manual is at the top of the file.
pub struct CpuQueue {
    capacity: usize,
    lanes: Vec<OnceLock<Box<Lane>>>,
    /// For each output, whether there are packets, and which thread's queue is next.
    outlets: Vec<Outlet>,
}

/// The queue of one thread. Its lock is shared by that one pusher and the pullers.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    packets: Lock<VecDeque<Packet>>,
    /// Packets stored so far.
    given: Count,
    drops: Count,
}

#[derive(Default)]
struct Outlet {
    notifier: Notifier,
    /// The thread whose queue is first in the next pull.
    next: Lock<usize>,
}

register!(CpuQueue, "cpu_queue.rs");

impl Element for CpuQueue {
    const CLASS: Class = Class::new("CPUQueue", "1/1-", "h/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity: u32 = setup.args.positional("CAPACITY", 128);
        setup.args.complete()?;
        Ok(Self {
            capacity: capacity as usize,
            lanes: (0..MAX_THREADS).map(|_| OnceLock::new()).collect(),
            outlets: (0..setup.outputs()).map(|_| Outlet::default()).collect(),
        })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let Some(lane) = self.lanes.get(cx.thread()) else { return };
        let lane = lane.get_or_init(Box::default);
        let outlet = cx.thread().checked_rem(self.outlets.len()).and_then(|n| self.outlets.get(n));
        let mut packets = lane.packets();
        let room = self.capacity.saturating_sub(packets.len()).min(batch.len());
        packets.extend(batch.drain_front(room));
        lane.given.add(room as u64);
        if let Some(outlet) = outlet.filter(|_| room > 0) {
            outlet.notifier.wake();
        }
        drop(packets);
        if !batch.is_empty() {
            lane.drops.add(batch.len() as u64);
            cx.drop_batch(batch, Reason::QueueFull);
        }
    }

    fn pull(&self, _: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        let Some(outlet) = self.outlets.get(port) else { return };
        let mut next = outlet.next.lock();
        let most = max.min(batch.room());
        let first = *next;
        let (later, sooner) = (self.lanes_of(port), self.lanes_of(port));
        let later = later.filter(|(thread, _)| *thread >= first);
        let sooner = sooner.filter(|(thread, _)| *thread < first);
        for (thread, lane) in later.chain(sooner) {
            let mut packets = lane.packets();
            let n = (most - batch.len()).min(packets.len());
            for packet in packets.drain(..n) {
                // There is room for this many.
                let _ = batch.push(packet);
            }
            *next = thread + 1;
            if batch.len() == most {
                break;
            }
        }
        if batch.is_empty() {
            self.look_again(port, &outlet.notifier);
        }
    }

    fn notifier(&self, port: usize) -> Option<&Notifier> {
        self.outlets.get(port).map(|outlet| &outlet.notifier)
    }

    fn handed_over(&self, (): &(), thread: usize, rings: &mut Vec<(u64, u64)>) {
        if let Some(lane) = self.lanes.get(thread).and_then(OnceLock::get) {
            let waiting = lane.packets().len() as u64;
            rings.push((lane.given.get(), lane.given.get() - waiting));
        }
    }

    fn held(&self) -> usize {
        self.all().map(|(_, lane)| lane.packets().len()).sum()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |queue, _| Element::held(queue));
        handlers.read("lengths", |queue, _| {
            let line =
                |(thread, lane): (usize, &Lane)| format!("{thread}\t{}\n", lane.packets().len());
            queue.all().map(line).collect::<String>()
        });
        handlers.read("capacity", |queue, _| queue.capacity);
        handlers
            .read("drops", |queue, _| queue.all().map(|(_, lane)| lane.drops.get()).sum::<u64>());
    }
}

impl CpuQueue {
    /// All queues in use, each with its thread.
    fn all(&self) -> impl Iterator<Item = (usize, &Lane)> {
        let lanes = self.lanes.iter().enumerate();
        lanes.filter_map(|(thread, lane)| Some((thread, &**lane.get()?)))
    }

    /// The queues of an output, each with its thread.
    fn lanes_of(&self, port: usize) -> impl Iterator<Item = (usize, &Lane)> {
        let outlets = self.outlets.len().max(1);
        self.all().filter(move |(thread, _)| thread % outlets == port)
    }

    /// Puts the notifier to sleep, unless packets have arrived since. A pusher wakes it under the lock of its queue,
    /// either before or after this function looks into that queue.
    fn look_again(&self, port: usize, notifier: &Notifier) {
        notifier.sleep();
        if self.lanes_of(port).any(|(_, lane)| !lane.packets().is_empty()) {
            notifier.wake();
        }
    }
}

impl Lane {
    fn packets(&self) -> MutexGuard<'_, VecDeque<Packet>> {
        self.packets.lock()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn stores_packets_in_order_up_to_its_capacity() {
        let mut rig = Rig::new("CPUQueue(2)", 1, 2).unwrap();
        let out = rig.push(0, &["a", "b", "c"]);
        assert_eq!(out, [vec![b"a".to_vec(), b"b".to_vec()], vec![]]);
        assert_eq!(rig.stats().drops, [(Reason::QueueFull, 1)]);
        assert_eq!(
            (rig.read("drops").unwrap(), rig.read("lengths").unwrap()),
            ("1".into(), "0\t0\n".into())
        );
        assert_eq!(rig.push(0, &["d"])[0], [b"d"]);
        assert!(rig.stats().balanced());
    }
}
