//! Reference counts without atomic instructions, for packets that stay on one thread.
//!
//! A buffer that several packets use has a reference count. If the plan of a router shows that a thread's
//! packets do not reach other threads, that thread *counts plainly*: the count of a buffer that it shares
//! first contains the thread's tag, and as long as it does, only this thread changes the count, with ordinary
//! loads and stores. (The idea is that of biased reference counting, Choi, Shull and Torrellas, PACT'18.)
//!
//! This is safe even if the plan is wrong. Another thread that gets such a packet does not touch the count:
//!
//! - to release the packet, it *posts* it to the tag's home, and the owner of the tag releases it later;
//! - to share the packet, it copies it;
//! - to find out whether the packet is shared, it reads the count, which is never too low.
//!
//! When all but one of the packets are gone, the tag is removed too: a buffer with one holder belongs to no
//! thread. A thread that ends leaves its home empty. A thread that then releases one of its packets changes
//! the count under the lock of the home, and so does the next thread that moves in.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::cache;
use super::homes::{HOMES, Home, TAG, home};

/// The running thread counts plainly as long as this value lives.
#[derive(Debug)]
#[must_use = "the thread counts plainly as long as this lives"]
pub struct PlainCounts {
    tag: u16,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl PlainCounts {
    /// Makes the running thread count plainly. `None` when it already does, or when all tags are in use: it
    /// then continues with atomic instructions.
    pub fn begin() -> Option<PlainCounts> {
        if TAG.get() != 0 {
            return None;
        }
        let free = |home: &Home| {
            let mut inside = home.inside.lock();
            !std::mem::replace(&mut inside.owned, true)
        };
        let at = HOMES.iter().position(free)?;
        let tag = u16::try_from(at + 1).ok()?;
        TAG.set(tag);
        Some(PlainCounts { tag, thread: PhantomData })
    }

    /// Releases packets that other threads have sent back. Call it regularly.
    #[inline]
    pub fn settle(&self) {
        if let Some(home) = home(self.tag).filter(|home| home.pending.load(Ordering::Relaxed)) {
            Self::release_posted(home);
        }
    }

    #[cold]
    fn release_posted(home: &Home) {
        let posted = {
            let mut inside = home.inside.lock();
            home.pending.store(false, Ordering::Relaxed);
            std::mem::take(&mut inside.posted)
        };
        cache::release_all(&posted);
    }
}

impl Drop for PlainCounts {
    fn drop(&mut self) {
        if let Some(home) = home(self.tag) {
            while !Self::is_left(home) {
                Self::release_posted(home);
            }
        }
        TAG.set(0);
    }
}

impl PlainCounts {
    /// Gives up the tag unless a packet was posted.
    fn is_left(home: &Home) -> bool {
        let mut inside = home.inside.lock();
        inside.owned = !inside.posted.is_empty();
        !inside.owned
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::memory::Packet;

    #[test]
    fn a_thread_that_counts_plainly_tags_what_it_shares() {
        let packet = Packet::from_bytes(b"one").unwrap();
        let atomic = packet.share().unwrap();
        let counts = PlainCounts::begin().unwrap();
        assert!(PlainCounts::begin().is_none(), "it does already");
        assert!(!packet.is_counted_plainly(), "shared before");

        let other = Packet::from_bytes(b"two").unwrap();
        let second = other.share().unwrap();
        let third = second.share().unwrap();
        assert!(other.is_counted_plainly() && third.is_counted_plainly());
        assert!(other.is_shared() && third.is_shared());
        drop(other);
        drop(second);
        assert!(!third.is_shared() && !third.is_counted_plainly(), "nobody's");
        drop(counts);
        drop((packet, atomic, third));
    }

    #[test]
    fn other_threads_send_packets_back_and_copy_them() {
        let counts = PlainCounts::begin().unwrap();
        let packet = Packet::from_bytes(b"ours").unwrap();
        let share = packet.share().unwrap();
        let copy = thread::spawn(move || {
            let copy = share.share().unwrap();
            assert!(!copy.is_shared(), "a copy");
            assert_eq!(copy.data(), b"ours");
            copy
        });
        drop(copy.join().unwrap());
        assert!(packet.is_shared(), "not released yet");
        counts.settle();
        assert!(!packet.is_shared());
    }

    #[test]
    fn packets_outlive_the_thread_that_shared_them() {
        let (give, take) = mpsc::channel();
        let maker = thread::spawn(move || {
            let counts = PlainCounts::begin().unwrap();
            let packet = Packet::from_bytes(b"left behind").unwrap();
            give.send(packet.share().unwrap()).unwrap();
            give.send(packet.share().unwrap()).unwrap();
            give.send(packet).unwrap();
            drop(counts);
        });
        maker.join().unwrap();
        let [first, second, mut last] = std::array::from_fn(|_| take.recv().unwrap());
        drop((first, second));
        // The thread of another test may have moved in meanwhile: then it has been sent them.
        while last.is_shared() {
            thread::yield_now();
        }
        last.data_mut()[0] = b'L';
        assert_eq!(last.data(), b"Left behind");
    }

    #[test]
    fn threads_that_hand_packets_to_and_fro_lose_none() {
        let rounds: u32 = if cfg!(miri) { 20 } else { 20_000 };
        let (to_other, from_one) = mpsc::sync_channel::<Packet>(64);
        let (to_one, from_other) = mpsc::sync_channel::<Packet>(64);
        let turn = move |give: mpsc::SyncSender<Packet>, take: mpsc::Receiver<Packet>| {
            move || {
                let counts = PlainCounts::begin();
                for round in 0..rounds {
                    counts.iter().for_each(PlainCounts::settle);
                    let packet = Packet::from_bytes(&round.to_ne_bytes()).unwrap();
                    let shares: Vec<Packet> = (0..3).filter_map(|_| packet.share()).collect();
                    for share in shares {
                        // The other one may be done, or behind.
                        drop(give.try_send(share));
                    }
                    if let Ok(mut got) = take.try_recv() {
                        got.data_mut()[0] ^= 1;
                    }
                    assert_eq!(packet.data(), round.to_ne_bytes(), "a share is never written");
                }
            }
        };
        let one = thread::spawn(turn(to_other, from_other));
        let other = thread::spawn(turn(to_one, from_one));
        one.join().unwrap();
        other.join().unwrap();
    }
}
