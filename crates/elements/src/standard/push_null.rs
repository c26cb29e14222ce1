//! PushNull - forwards packets unchanged between push ports
//!
//! # Synopsis
//! `PushNull`
//!
//! # Description
//! Forwards packets without changing them. Unlike the ports of Null, its ports are always push, so agnostic ports
//! connected to them become push too. PushNull1 to PushNull8 are aliases.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> PushNull -> Discard;
//! ```
//!
//! # See also
//! Null, PullNull

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct PushNull;

register!(PushNull, "push_null.rs");

impl Element for PushNull {
    const CLASS: Class = Class::new("PushNull", "1/1", "h/h").aliases(&[
        "PushNull1",
        "PushNull2",
        "PushNull3",
        "PushNull4",
        "PushNull5",
        "PushNull6",
        "PushNull7",
        "PushNull8",
    ]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for PushNull {
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
        let mut rig = Rig::new("PushNull", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("PushNull8", 1, 1).is_ok());
        assert!(Rig::new("PushNull(1)", 1, 1).is_err());
    }
}
