//! CoDel - drops packets that have been queued too long (Controlled Delay, RFC 8289)
//!
//! # Synopsis
//! `CoDel([TARGET, INTERVAL, keyword QUEUES])`
//!
//! # Description
//! Measures how long each packet it pulls has been queued: the time since its first timestamp annotation, which
//! SetTimestamp(FIRST true) sets before the queue. Once the delay has been TARGET or more for a whole INTERVAL, the
//! element starts to drop packets, and drops more often the longer this lasts, until the delay is below TARGET. As in
//! Click, dropping starts only after a second INTERVAL, unless packets were dropped shortly before. Packets without the
//! annotation are never dropped.
//!
//! # Arguments
//! - TARGET: the acceptable queueing delay. Positional, default 5ms.
//! - INTERVAL: how long the delay can exceed TARGET. The drop rate uses it in whole milliseconds. Positional, default
//!   100ms.
//! - QUEUES: the names of the queues that the handlers report on, instead of the nearest ones upstream.
//!
//! # Ports
//! One pull input, one pull output.
//!
//! # Handlers
//! - `codel_target`, `codel_interval` (read, write): the TARGET and INTERVAL arguments.
//! - `drops` (read): packets dropped.
//! - `queues` (read): the names of the queues, one per line.
//! - `stats` (read): the number of packets in the queues, and `drops`.
//! - `config` (read, write): the arguments; a write does not change QUEUES.
//!
//! # Drops
//! - expired: the packet, and those before it, had been queued too long.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5ms, 100ms) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! RED, PI, Queue, SetTimestamp

mod control_law;

use std::sync::MutexGuard;

use millrace_core::args::{Kind, Seconds};
use millrace_core::element::Call;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Packet,
    Reason, Refused, Setup, Timestamp, register,
};

use super::watched::{Watched, reread, with_argument};
use crate::queueing::interval::span;
use control_law::{ControlLaw, Goal, Source};

/// The element; its manual is at the top of the file.
pub struct CoDel {
    watched: Watched,
    goal: Lock<Goal>,
    law: Lock<ControlLaw>,
}

register!(CoDel, "codel.rs");

/// Reads all arguments; errors are in `args`.
fn read(args: &mut Args<'_>) -> (Goal, Watched) {
    let target = args.positional("TARGET", Seconds::from_millis(5));
    let interval = args.positional("INTERVAL", Seconds::from_millis(100));
    let watched = Watched::configure(args, Kind::Keyword);
    // The errors are in the arguments.
    let _ = args.complete();
    (Goal { target: span(target), interval: span(interval) }, watched)
}

impl Element for CoDel {
    const CLASS: Class = Class::new("CoDel", "1/1", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (goal, watched) = read(&mut setup.args);
        if setup.args.has_errors() {
            return Err(Failed);
        }
        Ok(Self { watched, goal: Lock::new(goal), law: Lock::default() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.watched.initialize(init, "no nearby Queues")
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let most = max.min(batch.room());
        let now = cx.refresh_now();
        let goal = self.goal();
        // The lock is not held meanwhile: upstream elements may call handlers of this one.
        let mut law = *self.law();
        let mut line = Line { one: cx.take_batch(), cx };
        while batch.len() < most
            && let Some(packet) = law.pull(goal, now, &mut line)
        {
            // There is room.
            let _ = batch.push(packet);
        }
        let Line { one, cx } = line;
        cx.give_batch(one);
        *self.law() = law;
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |codel, _| codel.law().drops);
        handlers.read("codel_target", |codel, _| codel.argument(0));
        handlers.read("codel_interval", |codel, _| codel.argument(1));
        for (at, name) in ["codel_target", "codel_interval"].into_iter().enumerate() {
            handlers.write(name, move |codel, call| {
                let config = with_argument(&codel.config(), at, &call.text());
                codel.reconfigure(call, &config)
            });
        }
        handlers.read("stats", |codel, _| {
            format!("{} current queue\n{} drops\n", codel.watched.size(), codel.law().drops)
        });
        handlers.read("queues", |codel, call| codel.watched.names(call.router(), "\n"));
        // Click's text also ends with a comma and nothing after it.
        handlers.read("config", |codel, _| format!("{}, ", codel.config()));
        handlers.write("config", |codel, call| codel.reconfigure(call, &call.text()));
    }
}

impl CoDel {
    /// The current settings, as arguments.
    fn config(&self) -> String {
        let goal = self.goal();
        format!("{}s, {} s", goal.target, goal.interval)
    }

    fn argument(&self, at: usize) -> String {
        self.config().split(", ").nth(at).unwrap_or_default().to_owned()
    }

    /// Applies new arguments, except the queues.
    fn reconfigure(&self, call: &Call<'_>, config: &str) -> Result<(), HandlerError> {
        reread(call, config, |args| {
            let (goal, _) = read(args);
            if !args.has_errors() {
                *self.goal.lock() = goal;
            }
        })
    }

    fn goal(&self) -> Goal {
        *self.goal.lock()
    }

    fn law(&self) -> MutexGuard<'_, ControlLaw> {
        self.law.lock()
    }
}

/// The packets upstream.
struct Line<'a> {
    cx: &'a mut Context,
    one: Batch,
}

impl Source for Line<'_> {
    type Packet = Packet;

    fn next(&mut self) -> Option<Packet> {
        self.cx.pull(0, 1, &mut self.one);
        self.one.pop()
    }

    fn arrival(packet: &Packet) -> Option<Timestamp> {
        let time = packet.first_timestamp();
        (time.sec() != 0).then_some(time)
    }

    fn drop(&mut self, packet: Packet) {
        self.cx.drop(packet, Reason::Expired);
    }
}
