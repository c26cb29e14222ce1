//! DelayShaper - delays packets in a pull path by a fixed time
//!
//! # Synopsis
//! `DelayShaper(DELAY)`
//!
//! # Description
//! On a pull, pulls a packet and holds it until DELAY has passed since its timestamp; then it gives the packet to its
//! puller and pulls the next one. For a packet without a timestamp, the delay starts when it is pulled. The timestamp
//! is set to the time at which the packet leaves. The puller can sleep meanwhile. A hot swap takes the packet over.
//!
//! # Arguments
//! - DELAY: the delay, such as `20ms`. Positional, mandatory.
//!
//! # Ports
//! One pull input, one pull output.
//!
//! # Handlers
//! - `delay` (read, write): the DELAY argument; a change applies to packets pulled afterwards.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(RATE 100, LIMIT 50) -> Queue -> DelayShaper(30ms) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! DelayUnqueue, Shaper, BandwidthShaper, SetTimestamp

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Packet, Refused, Setup,
    Task, Timer, Timestamp, register,
};

use crate::queueing::interval::{interval_text, span};

/// The element; its manual is at the top of the file.
pub struct DelayShaper {
    /// In nanoseconds.
    delay: AtomicI64,
    /// The packet that is held.
    next: Lock<Option<Packet>>,
    /// Active while a packet is due or may be available.
    notifier: Notifier,
    /// Runs when packets have arrived upstream.
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

register!(DelayShaper, "delay_shaper.rs");

impl Element for DelayShaper {
    const CLASS: Class = Class::new("DelayShaper", "1/1", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let delay: Seconds = setup.args.mandatory("DELAY");
        setup.args.complete()?;
        Ok(Self {
            delay: span(delay).as_nanos().into(),
            next: Lock::default(),
            notifier: Notifier::default(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.notifier.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        // The lock is not held meanwhile: upstream elements may call handlers of this one.
        let mut next = self.next().take();
        let mut one = cx.take_batch();
        let now = cx.refresh_now();
        let most = max.min(batch.room());
        while batch.len() < most {
            if next.is_none() && cx.pull(0, 1, &mut one) > 0 {
                next = one.pop().map(|packet| delayed(packet, now, self.delay()));
            }
            let Some(mut packet) = next.take_if(|packet| packet.timestamp() <= now) else { break };
            packet.set_timestamp(now);
            // The caller checks for room.
            let _ = batch.push(packet);
        }
        cx.give_batch(one);
        if batch.len() < most {
            if let Some(packet) = &next {
                self.notifier.sleep();
                self.timer.schedule_at(packet.timestamp());
            } else {
                let active =
                    || self.upstream.get().is_none_or(|upstream| upstream.active(cx.router()));
                if !active() {
                    self.notifier.sleep_unless(active);
                }
            }
        }
        *self.next() = next;
    }

    fn run_task(&self, _cx: &mut Context, (): &mut ()) -> bool {
        self.task.rest();
        if self.next().is_none() {
            self.notifier.wake();
        }
        false
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.notifier.wake();
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn held(&self) -> usize {
        self.next().iter().count()
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        // The first pull finds out when it is due.
        *self.next() = old.next().take();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("delay", |shaper, _| interval_text(shaper.delay()));
        handlers.write("delay", |shaper, call| {
            let delay = call.parse().map_err(|_| "delay must be a timestamp")?;
            shaper.delay.store(span(delay).as_nanos(), Relaxed);
            Ok(())
        });
    }
}

impl DelayShaper {
    fn next(&self) -> MutexGuard<'_, Option<Packet>> {
        self.next.lock()
    }

    fn delay(&self) -> Timestamp {
        Timestamp::from_nanos(self.delay.load(Relaxed))
    }
}

/// Sets the timestamp of a packet just pulled to the time at which it is due to leave.
pub(crate) fn delayed(mut packet: Packet, now: Timestamp, delay: Timestamp) -> Packet {
    let begin = if packet.timestamp().sec() == 0 { now } else { packet.timestamp() };
    packet.set_timestamp(begin.checked_add(delay).unwrap_or(Timestamp::MAX));
    packet
}
