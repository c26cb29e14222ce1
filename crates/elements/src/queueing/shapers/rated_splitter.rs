//! RatedSplitter - limits a stream to a packet rate, and sends the excess to a second output
//!
//! # Synopsis
//! `RatedSplitter(RATE, keywords BURST_DURATION, BURST_SIZE)`
//!
//! # Description
//! Sends up to RATE packets per second to output 0, and those above that to output 1. A token bucket saves unused
//! credit; it is full at first. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets per second. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_SIZE: size of the bucket in packets. Cannot be combined with BURST_DURATION.
//!
//! # Ports
//! One push input; one or two push outputs.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read): the current rate. `config` (write): all arguments, while packets run.
//!
//! # Drops
//! - unconnected: the packet was above the rate, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: RatedSplitter(2000, BURST_SIZE 10) -> Discard;
//! s [1] -> Print("too many") -> Discard;
//! ```
//!
//! # See also
//! BandwidthRatedSplitter, Meter, Shaper, RatedUnqueue

use std::sync::MutexGuard;

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Lock, Setup, register};

use super::rate::pace::{Pace, Unit};

/// The element; its manual is at the top of the file.
pub struct RatedSplitter(Splitting);

register!(RatedSplitter, "rated_splitter.rs");

impl Element for RatedSplitter {
    const CLASS: Class = Class::new("RatedSplitter", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Splitting::configure(setup, Unit::Packets).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Splitting::handlers(handlers, |splitter| &splitter.0);
    }
}

/// Sends packets within the rate to output 0, the others to output 1.
pub(super) struct Splitting(Lock<Pace>);

impl Splitting {
    pub(super) fn configure(setup: &mut Setup<'_>, unit: Unit) -> Result<Self, Failed> {
        let pace = Pace::configure(&mut setup.args, unit);
        setup.args.complete()?;
        Ok(Self(Lock::new(pace)))
    }

    pub(super) fn push(&self, cx: &mut Context, batch: &mut Batch) {
        let now = cx.now();
        let mut pace = self.pace();
        cx.route(batch, |packet| {
            let due = pace.is_due(now);
            if due {
                pace.spend(packet);
            }
            usize::from(!due)
        });
    }

    /// The handlers `rate` and `config`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.reconfigure(move |e, new| {
            of(e).pace().adopt(&of(&new).pace());
            Ok(())
        });
        handlers.read("rate", move |e, _| of(e).pace().rate_text());
        handlers.write("rate", move |e, call| of(e).pace().write_rate(call));
        handlers.read("config", move |e, _| of(e).pace().rate_text());
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock()
    }
}
