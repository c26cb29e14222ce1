//! PullNull - forwards packets unchanged between pull ports
//!
//! # Synopsis
//! `PullNull`
//!
//! # Description
//! Forwards packets without changing them. Unlike the ports of Null, its ports are always pull, so agnostic ports
//! connected to them become pull too. PullNull1 to PullNull8 are aliases.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One pull input, one pull output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> PullNull -> Discard;
//! ```
//!
//! # See also
//! Null, PushNull

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct PullNull;

register!(PullNull, "pull_null.rs");

impl Element for PullNull {
    const CLASS: Class = Class::new("PullNull", "1/1", "l/l").aliases(&[
        "PullNull1",
        "PullNull2",
        "PullNull3",
        "PullNull4",
        "PullNull5",
        "PullNull6",
        "PullNull7",
        "PullNull8",
    ]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, _cx: &mut Context, (): &mut (), _batch: &mut Batch) {}
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn forwards_packets_unchanged() {
        let mut rig = Rig::new("PullNull", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("PullNull8", 1, 1).is_ok());
        assert!(Rig::new("PullNull(1)", 1, 1).is_err());
    }
}
