//! Null - forwards packets unchanged
//!
//! # Synopsis
//! `Null`
//!
//! # Description
//! Forwards packets without changing them. Null1 to Null8 are aliases.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Null -> Discard;
//! ```
//!
//! # See also
//! PushNull, PullNull, Tee, Discard

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct Null;

register!(Null, "null.rs");

impl Element for Null {
    const CLASS: Class = Class::new("Null", "1/1", "a/a")
        .aliases(&["Null1", "Null2", "Null3", "Null4", "Null5", "Null6", "Null7", "Null8"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Null {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn forwards_packets_unchanged() {
        let mut rig = Rig::new("Null", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("Null(1)", 1, 1).is_err());
    }
}
