//! Idle - drops every packet and emits none
//!
//! # Synopsis
//! `Idle`
//!
//! # Description
//! Emits no packets on its outputs, drops every packet pushed to its inputs, and never pulls. Use it to connect
//! ports that would otherwise be unconnected.
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
    /// Never active, so that pullers can sleep forever.
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
    fn drops_every_packet_and_emits_none() {
        let mut rig = Rig::new("Idle", 2, 2).unwrap();
        assert!(rig.push(1, &["a"]).iter().all(Vec::is_empty));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
    }
}
