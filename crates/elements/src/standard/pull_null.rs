//! PullNull - passes packets on unchanged, by pull
//!
//! # Synopsis
//! `PullNull`
//!
//! # Description
//! Does nothing to packets. Unlike Null its ports are pull ports, and make those of agnostic neighbours
//! pull ports. PullNull1 to PullNull8 are other names of it.
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
    fn passes_packets_on() {
        let mut rig = Rig::new("PullNull", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("PullNull8", 1, 1).is_ok());
        assert!(Rig::new("PullNull(1)", 1, 1).is_err());
    }
}
