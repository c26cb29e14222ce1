//! Where and when a packet is processed.

use crate::time::Timestamp;

/// What an element may use while it processes a packet: the time, the thread, random numbers.
#[derive(Debug)]
pub struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) thread: usize,
    pub(crate) random: fastrand::Rng,
}

impl Moment {
    /// The time when this round of the thread's loop began, like [`Context::now`](crate::Context::now).
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The thread, counted from 0.
    #[inline(always)]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// This thread's source of random numbers, like [`Context::random`](crate::Context::random).
    #[inline(always)]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }
}

/// Something inside a round of a thread's loop: a [`Context`](crate::Context), or the [`Moment`] of one.
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

/// Keeps other crates from saying that a round lasts longer than it does.
pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Moment {}
}
