//! ScheduleInfo - sets relative scheduling weights in Click (ignored)
//!
//! # Synopsis
//! `ScheduleInfo(ELEMENT PARAM, ...)`
//!
//! # Description
//! In Click an element with twice another's PARAM runs twice as often. Here tasks take turns, and each turn processes a
//! batch, so PARAM has no effect: it is checked, so that Click configurations run unchanged, and then ignored. To share
//! a link use DRRSched, StrideSched or BandwidthShaper; to assign threads use StaticThreadSched.
//!
//! # Arguments
//! - ELEMENT PARAM: an element or compound element, and a non-negative real number. Any number of them.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! i :: InfiniteSource(LIMIT 5) -> Discard;
//! ScheduleInfo(i 0.5);
//! ```
//!
//! # See also
//! StaticThreadSched, StrideSched

use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct ScheduleInfo;

register!(ScheduleInfo, "schedule_info.rs");

impl Element for ScheduleInfo {
    const CLASS: Class =
        Class::new("ScheduleInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        for argument in setup.args.rest() {
            let words = argument.words();
            let share = match words.as_slice() {
                [] => continue,
                [_, share] => share.as_str().parse::<f64>().ok(),
                _ => None,
            };
            if !share.is_some_and(|share| share >= 0.0 && share.is_finite()) {
                setup.args.error(&argument, "expected ‘ELEMENTNAME PARAM’");
            }
        }
        setup.args.complete()?;
        setup.args.advise((), "the shares are accepted without effect: tasks take turns");
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn shares_are_numbers() {
        assert!(Rig::new("ScheduleInfo(a 0.5, b/c 4)", 0, 0).is_ok());
        assert!(Rig::new("ScheduleInfo(a)", 0, 0).is_err());
        assert!(Rig::new("ScheduleInfo(a -1)", 0, 0).is_err());
    }
}
