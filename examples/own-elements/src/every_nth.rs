//! EveryNth - forwards one packet in N
//!
//! # Synopsis
//! `EveryNth(N)`
//!
//! # Description
//! Forwards every Nth packet. It drops the others, or sends them to output 1 if that is connected.
//! Each thread counts for itself.
//!
//! # Arguments
//! - N: forwards one packet in N, at least 1. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for the others.
//!
//! # Handlers
//! - `n` (read): N.
//! - `passed` (read): how many packets have been forwarded. `reset_counts` (write): counts from 0 again.
//!
//! # Drops
//! - thinned out: the packet is not the Nth, and output 1 is not connected.
//!
//! # Example
//! ```click
//! RatedSource(LIMIT 100) -> EveryNth(10) -> Counter -> Discard;
//! ```
//!
//! # See also
//! Counter

use millrace_core::{
    Class, Count, Element, Failed, Handlers, Moment, PerPacket, PerThread, Setup, View, Way,
    drop_reason, register,
};

/// The element; its manual is at the top of the file.
pub struct EveryNth {
    n: u32,
    passed: PerThread<Count>,
}

register!(EveryNth, "every_nth.rs");

drop_reason! {
    /// The packet is not the Nth.
    pub THINNED_OUT = "thinned out"
}

impl Element for EveryNth {
    const CLASS: Class = Class::new("EveryNth", "1/1-2", "a/ah");
    /// Packets that this thread has seen since it last forwarded one.
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let n = setup.args.mandatory("N");
        if n == 0 {
            setup.args.error("N", "N must be at least 1");
        }
        setup.args.complete()?;
        Ok(Self { n, passed: PerThread::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("n", |element, _| element.n);
        handlers.read("passed", |element, _| element.passed.total());
        handlers.write("reset_counts", |element, _| {
            element.passed.iter().for_each(|count| count.set(0));
            Ok(())
        });
    }
}

impl PerPacket for EveryNth {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, seen: &mut u32, _: &mut View, moment: &mut Moment) -> Way {
        *seen += 1;
        if *seen < self.n {
            return Way::output_or_drop(1, THINNED_OUT.reason());
        }
        *seen = 0;
        self.passed.mine(moment).add(1);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use super::THINNED_OUT;

    #[test]
    fn one_packet_in_three_passes() {
        let mut rig = Rig::new("EveryNth(3)", 1, 1).unwrap();
        let out = rig.push(0, &["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(out[0], [b"c", b"f"]);
        assert_eq!(rig.stats().drops, [(THINNED_OUT.reason(), 5)]);
        assert!(rig.stats().balanced());
        assert_eq!(rig.read("passed").unwrap(), "2");
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("passed").unwrap(), "0");
    }

    #[test]
    fn the_others_leave_by_the_second_output() {
        let mut rig = Rig::new("EveryNth(2)", 1, 2).unwrap();
        let out = rig.push(0, &["a", "b", "c"]);
        assert_eq!(out, [vec![b"b"], vec![b"a", b"c"]]);
    }

    #[test]
    fn one_in_none_is_refused() {
        assert!(Rig::new("EveryNth(0)", 1, 1).is_err());
        assert!(Rig::new("EveryNth", 1, 1).is_err());
    }
}
