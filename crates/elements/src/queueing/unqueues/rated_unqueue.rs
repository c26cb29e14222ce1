//! RatedUnqueue - pulls packets at a limited packet rate and pushes them on
//!
//! # Synopsis
//! `RatedUnqueue(RATE, keywords BURST_DURATION, BURST_SIZE, ACTIVE)`
//!
//! # Description
//! Pulls one packet at a time, up to RATE per second, and pushes it on. A token bucket saves unused credit, up to
//! BURST_SIZE packets; it is full at first. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets per second. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_SIZE: size of the bucket in packets. Cannot be combined with BURST_DURATION.
//! - ACTIVE: whether the element pulls. Default true.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `rate` (read, write), `active` (read, write): the RATE and ACTIVE arguments.
//! - `config` (read): the current rate.
//! - `calls` (read): statistics: task runs, empty runs, pushes, failed pulls and packets.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> RatedUnqueue(1000) -> Discard;
//! ```
//!
//! # See also
//! Unqueue, BandwidthRatedUnqueue, RatedSource, Shaper

use millrace_core::{Class, Context, Element, Failed, Handlers, Init, Refused, Setup, register};

use super::super::shapers::pace::Unit;
use super::rated::Rated;

/// The element; its manual is at the top of the file.
pub struct RatedUnqueue(Rated);

register!(RatedUnqueue, "rated_unqueue.rs");

impl Element for RatedUnqueue {
    const CLASS: Class = Class::new("RatedUnqueue", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Rated::configure(setup, Unit::Packets).map(Self)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init);
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.run_task(cx)
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.0.run_timer();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Rated::handlers(handlers, |unqueue| &unqueue.0, |unqueue| unqueue.0.task());
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn a_burst_passes_first_then_the_rate_applies() {
        let mut rig = Rig::new("RatedUnqueue(100, BURST_SIZE 5)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["x"; 100])[0].len(), 5);
        assert_eq!(rig.pass(Timestamp::from_millis(101))[0].len(), 10);
        rig.write("rate", "1000").unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(10))[0].len(), 10);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn refuses_two_burst_sizes() {
        let element = "RatedUnqueue(100, BURST_SIZE 5, BURST_DURATION 1s)";
        assert!(Rig::new(element, 1, 1).is_err());
    }
}
