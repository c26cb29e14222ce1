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
//!
//! # Drops
//! - filtered: the packet is not the Nth, and output 1 is not connected.
//!
//! # Example
//! ```click
//! RatedSource(LIMIT 100) -> EveryNth(10) -> Counter -> Discard;
//! ```
//!
//! # See also
//! Counter

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct EveryNth {
    n: u32,
}

register!(EveryNth, "every_nth.rs");

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
        Ok(Self { n })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("n", |element, _| element.n);
    }
}

impl PerPacket for EveryNth {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, seen: &mut u32, _: &mut View, _: &mut Moment) -> Way {
        *seen += 1;
        if *seen < self.n {
            return Way::output_or_drop(1, Reason::Filtered);
        }
        *seen = 0;
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn one_packet_in_three_passes() {
        let mut rig = Rig::new("EveryNth(3)", 1, 1).unwrap();
        let out = rig.push(0, &["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(out[0], [b"c", b"f"]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 5)]);
        assert!(rig.stats().balanced());
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
