//! Where and when a packet is processed.

use crate::time::Timestamp;

/// What an element may use while it processes a packet: the time, the thread, random numbers.
#[derive(Debug)]
pub struct Moment {
    pub(super) now: Timestamp,
    pub(super) thread: usize,
    pub(super) random: fastrand::Rng,
}

impl Moment {
    /// The time when this round of the thread's loop began, like [`Context::now`](super::Context::now).
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The thread, counted from 0.
    #[inline(always)]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// This thread's source of random numbers, like [`Context::random`](super::Context::random).
    #[inline(always)]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }
}

/// Something inside a round of a thread's loop: a [`Context`](super::Context), or the [`Moment`] of one.
/// While it is borrowed, the round does not end.
pub trait InRound: sealed::Sealed {
    /// The thread, counted from 0.
    fn thread(&self) -> usize;
}

impl InRound for Moment {
    #[inline(always)]
    fn thread(&self) -> usize {
        self.thread
    }
}

impl InRound for super::Context {
    #[inline(always)]
    fn thread(&self) -> usize {
        super::Context::thread(self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Moment {}
    impl Sealed for crate::engine::Context {}
}
