//! TimedSink - pulls and drops a packet at a fixed interval
//!
//! # Synopsis
//! `TimedSink([INTERVAL])`
//!
//! # Description
//! Pulls a packet every INTERVAL and drops it. The first pull is after one INTERVAL.
//!
//! # Arguments
//! - INTERVAL: time between pulls, such as `10ms`. Positional, default 0.5 s.
//!
//! # Ports
//! One pull input.
//!
//! # Handlers
//! - `interval` (read, write): the INTERVAL argument; a new value takes effect after the next pull.
//!
//! # Drops
//! - discarded: every packet.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> TimedSink(10ms);
//! ```
//!
//! # See also
//! TimedSource, Discard

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Reason, Refused, Setup, register,
};

use super::timed_source::Ticks;

/// The element; its manual is at the top of the file.
pub struct TimedSink {
    ticks: Ticks,
}

register!(TimedSink, "timed_sink.rs");

impl Element for TimedSink {
    const CLASS: Class = Class::new("TimedSink", "1/0", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ticks = Ticks::configure(setup);
        setup.args.complete()?;
        Ok(Self { ticks })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.ticks.start(init);
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let mut batch = cx.take_batch();
        cx.pull(0, 1, &mut batch);
        cx.drop_batch(&mut batch, Reason::Discarded);
        cx.give_batch(batch);
        self.ticks.again(cx);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Ticks::handlers(handlers, |sink| &sink.ticks);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Reason, Timestamp};

    #[test]
    fn pulls_a_packet_each_interval() {
        let mut rig = Rig::new("TimedSink(10ms)", 1, 0).unwrap();
        rig.push(0, &["a", "b", "c"]);
        rig.pass(Timestamp::from_millis(25));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 2)]);
        assert!(rig.write("interval", "0").is_err());
        assert!(Rig::new("TimedSink(0)", 1, 0).is_err());
    }
}
