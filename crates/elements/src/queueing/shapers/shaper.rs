//! Shaper - limits the rate (packets per second) at which packets can be pulled
//!
//! # Synopsis
//! `Shaper(RATE)`
//!
//! # Description
//! Lets at most RATE packets per second be pulled, evenly spread: in each part of a second no more than its share, plus
//! what was left unused before. Other pulls get nothing. Pulls from a second output get the packets above the rate.
//! PacketShaper is another name for this element.
//!
//! # Arguments
//! - RATE: packets per second; above 4096000000 it is reduced to that. Positional, mandatory.
//!
//! # Ports
//! One pull input, one pull output; an optional second one for packets above the rate.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read, write): the current rate.
//! - `reset` (write): forgets the packets that have passed.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Shaper(1000) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! BandwidthShaper, RatedSplitter, RatedUnqueue, DelayShaper

use std::sync::MutexGuard;

use millrace_core::args::Bandwidth;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Lock, Packet, Setup, Timer, register,
};

use super::rate::gap_rate::GapRate;
use super::rate::pace::{Unit, bandwidth, written_bandwidth};

/// The element; its manual is at the top of the file.
pub struct Shaper(Shaping);

register!(Shaper, "shaper.rs");

impl Element for Shaper {
    const CLASS: Class = Class::new("Shaper", "1/1-2", "l/l").aliases(&["PacketShaper"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Shaping::configure(setup, Unit::Packets).map(Self)
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        self.0.pull(cx, port, max, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Shaping::handlers(handlers, |shaper| &shaper.0);
    }
}

/// Passes pulls on at a limited rate.
pub(super) struct Shaping {
    unit: Unit,
    rate: Lock<GapRate>,
    /// Used on virtual time only, so that it does not skip the time at which a packet is due.
    timer: Timer,
}

impl Shaping {
    pub(super) fn configure(setup: &mut Setup<'_>, unit: Unit) -> Result<Self, Failed> {
        let rate = match unit {
            Unit::Packets => setup.args.mandatory("RATE"),
            Unit::Bytes => bandwidth(&mut setup.args, "RATE"),
        };
        setup.args.complete()?;
        Ok(Self { unit, rate: Lock::new(GapRate::new(rate)), timer: setup.timer() })
    }

    /// Pulls packets for output 0 while one is due, for output 1 while none is.
    pub(super) fn pull(&self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch) {
        let mut one = cx.take_batch();
        let most = max.min(batch.room());
        let now = cx.refresh_now();
        while batch.len() < most && self.rate().is_due(now) == (port == 0) {
            cx.pull(0, 1, &mut one);
            let Some(packet) = one.pop() else { break };
            if port == 0 {
                self.rate().passed(self.amount(&packet));
            }
            // There is room.
            let _ = batch.push(packet);
        }
        cx.give_batch(one);
        if port == 0 && batch.len() < most && cx.router().clock().is_virtual() {
            let mut rate = self.rate();
            if let Some(due) = (!rate.is_due(now)).then(|| rate.due_at(now)).flatten() {
                self.timer.schedule_at(due);
            }
        }
    }

    fn amount(&self, packet: &Packet) -> u64 {
        match self.unit {
            Unit::Packets => 1,
            Unit::Bytes => packet.len() as u64,
        }
    }

    /// The handlers `rate config reset`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("rate", move |e, _| of(e).rate_text());
        handlers.write("rate", move |e, call| {
            let shaping = of(e);
            let rate = match shaping.unit {
                Unit::Packets => call.parse::<u64>()?,
                Unit::Bytes => written_bandwidth(call)?,
            };
            *shaping.rate() = GapRate::new(rate);
            Ok(())
        });
        handlers.read("config", move |e, _| of(e).rate_text());
        handlers.reconfigure(move |e, new| {
            *of(e).rate() = GapRate::new(of(&new).rate().rate());
            Ok(())
        });
        handlers.write("reset", move |e, _| {
            of(e).rate().reset();
            Ok(())
        });
    }

    fn rate_text(&self) -> String {
        let rate = self.rate().rate();
        match self.unit {
            Unit::Packets => rate.to_string(),
            Unit::Bytes => Bandwidth::from_bytes(rate).to_string(),
        }
    }

    fn rate(&self) -> MutexGuard<'_, GapRate> {
        self.rate.lock()
    }
}
