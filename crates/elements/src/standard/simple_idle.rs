//! SimpleIdle - drops every packet and emits none, without a notifier
//!
//! # Synopsis
//! `SimpleIdle`
//!
//! # Description
//! Like Idle, but without a notifier: an element that pulls from it keeps polling, because nothing tells it that
//! there will never be a packet.
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
//! SimpleIdle -> Discard;
//! ```
//!
//! # See also
//! Idle

use millrace_core::{Batch, Class, Context, Element, Failed, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct SimpleIdle;

register!(SimpleIdle, "simple_idle.rs");

impl Element for SimpleIdle {
    const CLASS: Class = Class::new("SimpleIdle", "-/-", "a/a").flow("x/y");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        cx.drop_batch(batch, Reason::Discarded);
    }

    fn pull(&self, _: &mut Context, (): &mut (), _: usize, _: usize, _: &mut Batch) {}
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn drops_every_packet_and_emits_none() {
        let mut rig = Rig::new("SimpleIdle", 2, 2).unwrap();
        assert!(rig.push(1, &["a"]).iter().all(Vec::is_empty));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
    }
}
