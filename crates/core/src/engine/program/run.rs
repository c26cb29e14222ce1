//! The state of a program while a batch goes through it.

use std::ptr;

use crate::engine::{Context, Moment};
use crate::memory::{Batch, Packet};

use super::Entry;
use super::fixed::Fixed;

/// What the steps of one run share.
pub(super) struct Run {
    /// That of `cx`.
    pub(super) moment: *mut Moment,
    pub(super) cx: *mut Context,
    outs: *const Fixed<Out>,
    entry: *const Entry,
    stopped: bool,
}

impl Run {
    /// The state of a run. What it points to is to be reached by it alone until the run has ended.
    pub(super) fn new(cx: &mut Context, outs: &Fixed<Out>, entry: &Entry) -> Self {
        let cx: *mut Context = cx;
        // SAFETY: the pointer is that of a live reference; only the field's address is taken.
        let moment = unsafe { &raw mut (*cx).moment };
        Self { moment, cx, outs, entry, stopped: false }
    }

    /// That of no run.
    pub(super) fn idle() -> Self {
        let (moment, cx) = (ptr::null_mut(), ptr::null_mut());
        Self { moment, cx, outs: ptr::null(), entry: ptr::null(), stopped: false }
    }

    /// Whether packets behind the one at hand are to wait.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Nothing has been sent further on since.
    pub(super) fn go_on(&mut self) {
        self.stopped = false;
    }

    /// Makes packets behind the one at hand wait.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Hands over what has left the program so far, so that what is sent from now on comes behind it.
    ///
    /// # Safety
    /// No step is using the outs or the context.
    pub(super) unsafe fn hand_over(&mut self) {
        // SAFETY: the pointers are those of live references that nobody uses meanwhile.
        let (outs, entry, cx) = unsafe { (&*self.outs, &*self.entry, &mut *self.cx) };
        for &out in &entry.outs {
            // SAFETY: as above.
            unsafe { (*outs.at(out)).hand_over(cx) };
        }
    }

    /// Whether packets wait at a step further on.
    ///
    /// # Safety
    /// As [`hand_over`](Run::hand_over).
    pub(super) unsafe fn is_awaited(&self) -> bool {
        // SAFETY: as above.
        let (entry, cx) = unsafe { (&*self.entry, &*self.cx) };
        cx.is_pending(&entry.inside)
    }
}

/// Where packets leave the program: the batch that goes to one input.
pub(super) struct Out {
    frame: u32,
    /// Where in the batch's array the next packet goes, and where it begins. The batch itself is empty while
    /// packets are put there.
    next: *mut Packet,
    first: *mut Packet,
    batch: Batch,
}

impl Out {
    pub(super) fn to(frame: u32) -> Self {
        let mut batch = Batch::new();
        let first = batch.array();
        Self { frame, next: first, first, batch }
    }

    /// Adds a packet.
    ///
    /// # Safety
    /// There is room: since it was handed over, fewer packets were added than a batch holds.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, packet: Packet) {
        // SAFETY: the caller's promise; the entry holds no packet.
        unsafe {
            self.next.write(packet);
            self.next = self.next.add(1);
        }
    }

    /// Lets the packets wait at the input that they go to.
    #[inline]
    pub(super) fn hand_over(&mut self, cx: &mut Context) {
        if self.next == self.first {
            return;
        }
        // SAFETY: both lie in the batch's array, and so many entries from its front on were written.
        unsafe {
            let count = self.next.offset_from_unsigned(self.first);
            self.batch.take_in(count);
        }
        cx.waiting().add_batch(self.frame, &mut self.batch);
        self.first = self.batch.array();
        self.next = self.first;
    }
}
