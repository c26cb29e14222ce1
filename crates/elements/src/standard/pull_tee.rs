//! PullTee - forwards pulled packets and pushes clones to the other outputs
//!
//! # Synopsis
//! `PullTee([N])`
//!
//! # Description
//! When output 0 is pulled, pulls packets from its input and returns them, and pushes a clone of each packet to
//! every other output. Clones share the packet's data.
//!
//! # Arguments
//! - N: number of outputs; must equal the number connected. Positional, default: the number connected.
//!
//! # Ports
//! One pull input; output 0 is pull, any further outputs are push.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: no packet memory was free for a clone.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> t :: PullTee -> Discard;
//! t [1] -> Counter -> Discard;
//! ```
//!
//! # See also
//! Tee

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

use super::tee::{check_outputs, push_copies};

/// The element; its manual is at the top of the file.
pub struct PullTee;

register!(PullTee, "pull_tee.rs");

impl Element for PullTee {
    const CLASS: Class = Class::new("PullTee", "1/1-", "l/lh");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        check_outputs(setup)?;
        Ok(Self)
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        cx.pull(0, max, batch);
        for port in 1..cx.outputs() {
            push_copies(cx, port, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn gives_each_output_every_packet_in_order() {
        let mut rig = Rig::new("PullTee", 1, 3).unwrap();
        let out = rig.push(0, &["a", "b"]);
        assert_eq!(out, vec![vec![b"a".to_vec(), b"b".to_vec()]; 3]);
        assert!(rig.stats().balanced());
        assert!(Rig::new("PullTee(2)", 1, 3).is_err());
    }
}
