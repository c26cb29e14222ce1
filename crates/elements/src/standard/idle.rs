//! Idle - sends nothing, discards what it gets
//!
//! # Synopsis
//! `Idle`
//!
//! # Description
//! Its outputs never send and never have packets to pull; it drops every packet that is pushed to
//! it and pulls none. It closes ports that must be connected.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! Any number of agnostic inputs and outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - discarded: every packet.
//!
//! # Example
//! ```click
//! Idle -> Discard;
//! ```
//!
//! # See also
//! Discard

use millrace_core::{Batch, Class, Context, Element, Failed, Notifier, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Idle {
    /// Never active: pullers may rest for ever.
    notifier: Notifier,
}

register!(Idle, "idle.rs");

impl Element for Idle {
    const CLASS: Class = Class::new("Idle", "-/-", "a/a").flow("x/y");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { notifier: Notifier::default() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        cx.drop_batch(batch, Reason::Discarded);
    }

    fn pull(&self, _: &mut Context, (): &mut (), _: usize, _: usize, _: &mut Batch) {}

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn takes_all_and_gives_nothing() {
        let mut rig = Rig::new("Idle", 2, 2).unwrap();
        assert!(rig.push(1, &["a"]).iter().all(Vec::is_empty));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
    }
}
