//! TSCClock - has no effect: the clock is fast by itself
//!
//! # Synopsis
//! `TSCClock([keywords NOWAIT, INSTALL, VERBOSE])`
//!
//! # Description
//! In FastClick, this class lets elements read the time from the processor's time stamp counter instead of by system
//! calls. Here no element calls the system for the time: the kernel's clock, which all read, is that counter where it
//! is steady, and one reading serves a whole batch. `millrace check` mentions each such element.
//!
//! # Arguments
//! - NOWAIT: whether FastClick uses its clock before it is sure of it. Keyword, default false; accepted without effect.
//! - INSTALL: whether FastClick uses its clock, or only compares it. Keyword, default true; accepted without effect.
//! - VERBOSE: how much FastClick prints. Keyword, default 1; accepted without effect.
//!
//! FastClick refuses NOWAIT without INSTALL, and so does Millrace.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `now`, `now_steady` (read): the router's time in nanoseconds. It never jumps.
//! - `cycles` (read): the processor's time stamp counter.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! TSCClock(NOWAIT true);
//! InfiniteSource(LIMIT 10) -> SetTimestamp -> Discard;
//! ```
//!
//! # See also
//! JiffieClock, SetTimestamp, SetCycleCount

use millrace_core::{Class, Element, Failed, Handlers, Setup, cycles, register};

/// The element; its manual is at the top of the file.
pub struct TscClock;

register!(TscClock, "tsc_clock.rs");

impl Element for TscClock {
    const CLASS: Class = Class::new("TSCClock", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        args.advise((), "TSCClock has no effect: the clock is fast by itself");
        let waits_not = args.keyword("NOWAIT", false);
        let installs = args.keyword("INSTALL", true);
        let _: u32 = args.keyword("VERBOSE", 1);
        if waits_not && !installs {
            args.error("NOWAIT", "NOWAIT makes no sense without INSTALL");
        }
        args.complete()?;
        Ok(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("now", |_, call| call.now().as_nanos());
        handlers.read("now_steady", |_, call| call.now().as_nanos());
        handlers.read("cycles", |_, _| cycles::now());
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn time_and_cycles_can_be_read() {
        let rig = Rig::new("TSCClock(INSTALL true, NOWAIT true, VERBOSE 3)", 0, 0).unwrap();
        assert_eq!(rig.read("now").unwrap(), rig.read("now_steady").unwrap());
        let before: u64 = rig.read("cycles").unwrap().parse().unwrap();
        assert!(rig.read("cycles").unwrap().parse::<u64>().unwrap() >= before);
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Rig::new("TSCClock(INSTALL false, NOWAIT true)", 0, 0).is_err());
        assert!(Rig::new("TSCClock(NOWAIT perhaps)", 0, 0).is_err());
        assert!(Rig::new("TSCClock(1)", 0, 0).is_err());
    }
}
