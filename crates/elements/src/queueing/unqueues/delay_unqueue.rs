//! DelayUnqueue - pulls packets and pushes them on after a fixed delay
//!
//! # Synopsis
//! `DelayUnqueue(DELAY)`
//!
//! # Description
//! Pulls a packet, waits until DELAY has passed since its timestamp, and pushes it on; then pulls the next one. For a
//! packet without a timestamp, the delay starts when it is pulled. The timestamp is set to the time at which the packet
//! was due to leave. A hot swap takes the packet that waits over.
//!
//! # Arguments
//! - DELAY: the delay, such as `20ms`. Positional, mandatory.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `delay` (read, write): the DELAY argument; a change applies to packets pulled afterwards.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(RATE 100, LIMIT 50) -> Queue -> DelayUnqueue(30ms) -> Discard;
//! ```
//!
//! # See also
//! DelayShaper, LinkUnqueue, Queue, SetTimestamp

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Refused, Setup, Task, Timer,
    Timestamp, register,
};

use crate::queueing::interval::{interval_text, span};
use crate::queueing::shapers::delay_shaper::delayed;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct DelayUnqueue {
    /// In nanoseconds.
    delay: AtomicI64,
    /// The packet that is held.
    next: Lock<Option<Packet>>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

register!(DelayUnqueue, "delay_unqueue.rs");

impl Element for DelayUnqueue {
    const CLASS: Class = Class::new("DelayUnqueue", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let delay: Seconds = setup.args.mandatory("DELAY");
        setup.args.complete()?;
        Ok(Self {
            delay: span(delay).as_nanos().into(),
            next: Lock::default(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        // The lock is not held meanwhile: upstream elements may call handlers of this one.
        let mut next = self.next().take();
        let mut one = cx.take_batch();
        let mut out = cx.take_batch();
        let now = cx.refresh_now();
        while !out.is_full() {
            if next.is_none() && cx.pull(0, 1, &mut one) > 0 {
                next = one.pop().map(|packet| delayed(packet, now, self.delay()));
            }
            match next.take_if(|packet| packet.timestamp() <= now) {
                // The caller checks for room.
                Some(packet) => drop(out.push(packet)),
                None => break,
            }
        }
        if let Some(packet) = &next {
            self.task.rest();
            self.timer.schedule_at(packet.timestamp());
            *self.next() = next;
        } else if !out.is_full()
            && let Some(upstream) = self.upstream.get()
        {
            upstream.rest(&self.task, cx.router());
        }
        let worked = !out.is_empty();
        cx.push_batch(0, &mut out);
        cx.give_batch(one);
        cx.give_batch(out);
        worked
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn held(&self) -> usize {
        self.next().iter().count()
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        // The first run of the task finds out when it is due.
        *self.next() = old.next().take();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("delay", |unqueue, _| interval_text(unqueue.delay()));
        handlers.write("delay", |unqueue, call| {
            unqueue.delay.store(span(call.parse()?).as_nanos(), Relaxed);
            Ok(())
        });
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

impl DelayUnqueue {
    fn next(&self) -> MutexGuard<'_, Option<Packet>> {
        self.next.lock()
    }

    fn delay(&self) -> Timestamp {
        Timestamp::from_nanos(self.delay.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_leave_after_their_delay() {
        let mut rig = Rig::new("DelayUnqueue(20ms)", 1, 1).unwrap();
        assert!(rig.push(0, &["a", "b"])[0].is_empty());
        assert!(rig.pass(Timestamp::from_millis(19))[0].is_empty());
        // The second one was pulled when the first one left.
        let out = rig.pass(Timestamp::from_millis(1));
        assert_eq!(out[0].len(), 1);
        assert_eq!(out[0][0].timestamp(), rig.router().clock().now());
        assert_eq!(rig.pass(Timestamp::from_millis(20))[0].len(), 1);
        assert_eq!(rig.read("delay").unwrap(), "20ms");
        assert!(rig.stats().balanced());
    }
}
