//! JiffieClock - has no effect: no element counts in jiffies
//!
//! # Synopsis
//! `JiffieClock([VERBOSE, MINPRECISION])`
//!
//! # Description
//! A jiffy is a millisecond. In FastClick, some elements take the time in jiffies, and this class counts these by a
//! timer, which is faster than asking the system. Here elements take the time in nanoseconds, once for a batch, from a
//! clock that is fast by itself. `millrace check` mentions each such element.
//!
//! # Arguments
//! - VERBOSE: whether FastClick prints when the count is late. Positional, default false; accepted without effect.
//! - MINPRECISION: how many jiffies FastClick may miss at a time. Positional, default 2; accepted without effect.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `jiffies` (read): the router's time in milliseconds.
//! - `status` (read): whether jiffies are counted by a timer: false.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! JiffieClock(MINPRECISION 1000);
//! InfiniteSource(LIMIT 10) -> Counter -> Discard;
//! ```
//!
//! # See also
//! TSCClock

use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

/// The element; its manual is at the top of the file.
pub struct JiffieClock;

register!(JiffieClock, "jiffie_clock.rs");

impl Element for JiffieClock {
    const CLASS: Class = Class::new("JiffieClock", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        args.advise((), "JiffieClock has no effect: no element counts in jiffies");
        let _: bool = args.positional("VERBOSE", false);
        let _: u32 = args.positional("MINPRECISION", 2);
        args.complete()?;
        Ok(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("jiffies", |_, call| call.now().as_millis());
        handlers.read("status", |_, _| false);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn jiffies_are_milliseconds() {
        let rig = Rig::new("JiffieClock(true, MINPRECISION 1000)", 0, 0).unwrap();
        assert_eq!(rig.read("jiffies").unwrap(), "1000000000000");
        assert_eq!(rig.read("status").unwrap(), "false");
        assert!(Rig::new("JiffieClock(MINPRECISION -1)", 0, 0).is_err());
    }
}
