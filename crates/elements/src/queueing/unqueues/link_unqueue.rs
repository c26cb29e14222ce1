//! LinkUnqueue - emulates a link with a latency and a bandwidth
//!
//! # Synopsis
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! # Description
//! Pulls packets and pushes each on when it would leave the other end of the link: LATENCY after it enters, plus the
//! time to transmit its length at BANDWIDTH. Packets that are waiting are transmitted one after another. The element
//! pulls only as many packets as fit on the link at a time, and sets each packet's timestamp to the time at which it
//! leaves the link. The extra length annotation, the length of data cut off the packet, counts too. A hot swap takes the
//! packets on the link over; they leave when they would have left.
//!
//! # Arguments
//! - LATENCY: how long a bit takes from one end to the other, such as `5ms`. Positional, mandatory.
//! - BANDWIDTH: bandwidth, such as `10Mbps`, rounded down to a multiple of 100 bytes per second and at least that much;
//!   0 for unlimited bandwidth. Positional, mandatory.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `latency`, `bandwidth` (read, write): the LATENCY and BANDWIDTH arguments, the latter in bytes per second. Writing
//!   drops the packets on the link. A bandwidth of 0 cannot be written.
//! - `size` (read): packets on the link.
//! - `reset` (write): drops the packets on the link.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! - discarded: dropped by a write to `latency`, `bandwidth` or `reset`.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> LinkUnqueue(5ms, 10Mbps) -> Discard;
//! ```
//!
//! # See also
//! DelayUnqueue, BandwidthRatedUnqueue, Queue

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, OnceLock};

use millrace_core::args::{Bandwidth, Seconds};
use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Offers, Packet, Reason, Refused, Setup,
    Task, Timer, Timestamp, register,
};

use crate::capability::Storage;
use crate::queueing::interval::{interval_text, span};
use crate::queueing::shapers::rate::pace::bandwidth;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct LinkUnqueue {
    link: Lock<Link>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

struct Link {
    latency: Timestamp,
    /// In hundreds of bytes per second; 0 means unlimited.
    bandwidth: u64,
    /// In the order in which they leave.
    packets: VecDeque<Packet>,
    /// The last pull gave a packet: the next one follows it immediately.
    back_to_back: bool,
    /// Packets that a handler discarded, not yet counted as drops by a thread of the graph.
    thrown_out: usize,
}

const STEP: u64 = 100;

register!(LinkUnqueue, "link_unqueue.rs");

impl Element for LinkUnqueue {
    const CLASS: Class = Class::new("LinkUnqueue", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let latency: Seconds = setup.args.mandatory("LATENCY");
        let bandwidth = bandwidth(&mut setup.args, "BANDWIDTH");
        if (1..STEP).contains(&bandwidth) {
            setup.args.error(
                "BANDWIDTH",
                "bandwidth too small, minimum 100Bps, or 0 to disable bandwidth",
            );
        }
        setup.args.complete()?;
        let link = Link {
            latency: span(latency),
            bandwidth: bandwidth / STEP,
            packets: VecDeque::new(),
            back_to_back: false,
            thrown_out: 0,
        };
        let (task, timer) = (setup.task(), setup.timer());
        Ok(Self { link: Lock::new(link), task, timer, upstream: OnceLock::new() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let now = cx.refresh_now();
        let mut out = cx.take_batch();
        let mut worked = self.pull(cx, now);
        let mut link = self.link();
        while !out.is_full()
            && link.packets.front().is_some_and(|packet| packet.timestamp() <= now)
            && let Some(packet) = link.packets.pop_front()
        {
            worked = true;
            // There is room.
            drop(out.push(packet));
        }
        let thrown_out = std::mem::take(&mut link.thrown_out);
        let active = self.upstream.get().is_some_and(|upstream| upstream.active(cx.router()));
        match link.next(active) {
            Some(next) if next > now => {
                self.task.rest();
                self.timer.schedule_at(next);
            }
            // The task keeps pulling while packets may be available; the timer keeps those on the link from being late.
            Some(_) => link.packets.front().iter().for_each(|first| {
                self.timer.schedule_at(first.timestamp());
            }),
            None => {
                if let Some(upstream) = self.upstream.get() {
                    upstream.rest(&self.task, cx.router());
                }
            }
        }
        drop(link);
        cx.dropped(thrown_out, Reason::Discarded);
        cx.push_batch(0, &mut out);
        cx.give_batch(out);
        worked
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Storage>(self.clone());
    }

    fn held(&self) -> usize {
        let link = self.link();
        link.packets.len() + link.thrown_out
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        let (mut link, mut old) = (self.link(), old.link());
        link.packets = std::mem::take(&mut old.packets);
        link.back_to_back = old.back_to_back;
        link.thrown_out = std::mem::take(&mut old.thrown_out);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("latency", |unqueue, _| interval_text(unqueue.link().latency));
        handlers.read("bandwidth", |unqueue, _| unqueue.link().bandwidth * STEP);
        handlers.read("size", |unqueue, _| unqueue.link().packets.len());
        handlers.write("latency", |unqueue, call| {
            let latency = call.parse().map_err(|_| "latency must be a timestamp")?;
            unqueue.reset(|link| link.latency = span(latency));
            Ok(())
        });
        handlers.write("bandwidth", |unqueue, call| {
            let bandwidth: Bandwidth = call.parse().map_err(|_| "invalid bandwidth")?;
            if bandwidth.as_bytes() < STEP {
                return Err("bandwidth too small, minimum 100Bps".into());
            }
            unqueue.reset(|link| link.bandwidth = bandwidth.as_bytes() / STEP);
            Ok(())
        });
        handlers.write("reset", |unqueue, _| {
            unqueue.reset(|_| {});
            Ok(())
        });
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

impl LinkUnqueue {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock()
    }

    /// Pulls packets as long as the start of the link is free. Returns whether there were any.
    fn pull(&self, cx: &mut Context, now: Timestamp) -> bool {
        // Any more are left to the next round.
        const MOST: usize = 256;
        let mut one = cx.take_batch();
        let mut pulled = 0;
        while pulled < MOST && self.link().is_free(now) {
            // Upstream elements may call handlers of this one.
            cx.pull(0, 1, &mut one);
            let mut link = self.link();
            link.back_to_back &= !one.is_empty();
            let Some(packet) = one.pop() else { break };
            link.put(packet, now);
            pulled += 1;
        }
        cx.give_batch(one);
        pulled > 0
    }

    /// Changes the link, and discards the packets on it.
    fn reset(&self, change: impl FnOnce(&mut Link)) {
        let mut link = self.link();
        change(&mut link);
        link.thrown_out += link.packets.len();
        link.packets.clear();
        self.timer.unschedule();
        self.task.schedule();
    }
}

impl Link {
    /// When the first bit of a packet that enters at `now` leaves the link.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        now.checked_add(self.latency).unwrap_or(Timestamp::MAX)
    }

    /// Whether all of the last packet is on the link.
    fn is_free(&self, now: Timestamp) -> bool {
        self.packets.back().is_none_or(|last| last.timestamp() <= self.earliest(now))
    }

    /// Puts a packet on the link, right behind the previous one if that was pulled just before.
    fn put(&mut self, mut packet: Packet, now: Timestamp) {
        let last = self.packets.back().filter(|_| self.back_to_back);
        let begin = last.map_or(self.earliest(now), Packet::timestamp);
        let end = begin.checked_add(self.duration(&packet)).unwrap_or(Timestamp::MAX);
        packet.set_timestamp(end);
        self.packets.push_back(packet);
        self.back_to_back = true;
    }

    /// How long it takes to transmit a packet, in whole microseconds.
    fn duration(&self, packet: &Packet) -> Timestamp {
        let length = packet.len() as u64 + u64::from(packet.extra_length());
        let micros = (length * (1_000_000 / STEP)).checked_div(self.bandwidth).unwrap_or(0);
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(0))
    }

    /// When the next packet leaves the link; or, if more may enter, when the link is free, if that is earlier.
    fn next(&self, active: bool) -> Option<Timestamp> {
        let first = self.packets.front()?.timestamp();
        let free = self.packets.back().map(|last| last.timestamp() - self.latency);
        Some(free.filter(|_| active).map_or(first, |free| free.min(first)))
    }
}

impl Storage for LinkUnqueue {
    fn size(&self) -> usize {
        self.link().packets.len()
    }

    fn capacity(&self) -> usize {
        0x7fff_ffff
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_leave_the_link_one_after_another() {
        let mut rig = Rig::new("LinkUnqueue(1ms, 1MBps)", 1, 1).unwrap();
        let start = rig.router().clock().now();
        assert!(rig.push(0, &[vec![0; 500], vec![0; 1000]])[0].is_empty());
        assert_eq!(rig.read("size").unwrap(), "1");
        let out = rig.pass(Timestamp::from_millis(3));
        let times: Vec<i64> = out[0].iter().map(|p| (p.timestamp() - start).as_micros()).collect();
        // The second one can start once the first one is on the link, and takes twice as long.
        assert_eq!(times, [1500, 2500]);
        assert!(rig.stats().balanced());
    }
}
