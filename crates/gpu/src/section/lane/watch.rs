//! Watches batches in flight: done, late, failed, or the device lost.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;

use millrace_core::{Timestamp, cycles};

use super::Lane;
use crate::Poll;
use crate::section::flight::{Flight, State};
use crate::section::pause::Pause;
use crate::section::recovery::Order;
use crate::section::report::Fault;

impl Lane {
    /// Ends the batch that is being collected if it is due, checks what the device has done, and waits for the device
    /// if the lane is full. The thread that [takes](Self::take) batches must call it in every round. Returns true if
    /// there will be work soon, so that the thread must not sleep.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        let mut worked = self.attend() || !self.inherited.is_empty();
        self.admit_inherited(now);
        worked |= self.poll();
        self.launch_waiting();
        let idle = !std::mem::take(&mut self.added) && self.flying == 0;
        let due = |open: &Flight| {
            idle || (now - open.since).to_duration() >= self.section.settings().timeout
        };
        if self.open.as_ref().is_some_and(due) && self.may_end_early() {
            self.flush();
            worked = true;
        }
        if self.full || self.space() < self.section.packets() {
            // While all packets are in the batch that is being collected, nothing becomes free.
            if self.queue.is_empty() {
                self.flush();
            }
            self.wait();
        }
        self.balancer.tick(now.as_nanos().unsigned_abs());
        self.counters.share.store((self.balancer.share() * 1e6) as u32, Relaxed);
        worked || self.flying > 0 || self.queue.front().is_some_and(Flight::is_done)
    }

    /// Handles what is due for the connection to the device. Returns true if a new connection was made.
    fn attend(&mut self) -> bool {
        if !self.section.has_device() {
            return false;
        }
        self.let_go();
        self.counters.good.set(self.link.is_good().into());
        if self.link.is_good() {
            self.failed = false;
            return false;
        }
        match self.link.attend(self.section.device_now()) {
            Order::Nothing => false,
            Order::Connect => {
                let (sender, receiver) = sync_channel(1);
                self.link.asked(receiver);
                self.section.connect_aside(sender);
                true
            }
            Order::Failed(fault) => {
                self.counters.fault(fault);
                false
            }
            Order::Dispose(connection) => {
                self.counters.fault(Fault::Lost);
                self.forget_slots();
                self.section.dispose(connection);
                true
            }
        }
    }

    /// Checks what the device has done.
    fn poll(&mut self) -> bool {
        let mut worked = false;
        for at in 0..self.queue.len() {
            if self.flying == 0 {
                break;
            }
            let Some(flight) = self.queue.get_mut(at) else { break };
            let State::Flying { ticket, since } = flight.state else { continue };
            let start = cycles::now();
            match self.link.poll(ticket) {
                Poll::Done => {
                    flight.state = State::Landed(ticket.slot);
                    flight.cost += cycles::now().wrapping_sub(start);
                    self.flying -= 1;
                    self.link.well();
                    worked = true;
                }
                Poll::Pending => {
                    let patience = self.section.settings().patience.as_nanos() as u64;
                    if self.section.device_now().saturating_sub(since) <= patience {
                        break;
                    }
                    self.fault(Fault::Timeout);
                    return true;
                }
                Poll::Failed(error) => {
                    self.fault(Fault::of(&error, Fault::Step));
                    return true;
                }
            }
        }
        worked
    }

    /// Waits for the oldest batch, if it is on the device, for at most the time that the device may take.
    fn wait(&mut self) {
        if !self.queue.front().is_some_and(Flight::is_flying) {
            return;
        }
        self.counters.waits.add(1);
        let start = cycles::now();
        let mut pause = Pause::default();
        while self.queue.front().is_some_and(Flight::is_flying) {
            self.poll();
            pause.take();
        }
        self.balancer.waited(cycles::now().wrapping_sub(start) as f64);
    }

    /// Handles a fault: leaves all batches that are on the device, or wait for it, to the twins.
    pub(super) fn fault(&mut self, fault: Fault) {
        self.counters.fault(fault);
        self.failed = true;
        if let Some(open) = self.open.as_mut().filter(|open| open.is_for_device()) {
            if let Some(slot) = open.state.slot_at_rest() {
                self.link.give_slot(slot);
            }
            open.fall_back();
        }
        let mut written = Vec::new();
        for flight in self.queue.iter_mut().filter(|flight| !flight.is_done()) {
            if let State::Flying { ticket, .. } = flight.state {
                written.push(ticket.slot);
                self.counters.again.add(1);
            }
            flight.fall_back();
        }
        self.flying = 0;
        if let Some(connection) = self.link.fault(self.section.device_now(), fault, written) {
            self.forget_slots();
            self.section.dispose(connection);
        }
    }

    /// The slots are gone with their device: their batches are processed again.
    fn forget_slots(&mut self) {
        self.tables = Arc::default();
        self.flying = 0;
        let in_slot = |flight: &&mut Flight| flight.is_for_device();
        for flight in self.queue.iter_mut().chain(&mut self.open).filter(in_slot) {
            flight.fall_back();
            self.counters.again.add(1);
        }
    }

    /// Gives up the connection if the device is lost, for a lane whose thread does not run it at present.
    pub(in crate::section) fn let_go(&mut self) {
        if self.link.generation().is_some_and(|mine| mine != self.section.present()) {
            self.fault(Fault::Lost);
        }
    }
}
