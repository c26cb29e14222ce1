//! PullTee - copies packets that are pulled to further outputs
//!
//! # Synopsis
//! `PullTee([N])`
//!
//! # Description
//! Gives the packets that it pulls to whoever pulls output 0, and sends a copy of each to every other
//! output. The copies share the packet's data.
//!
//! # Arguments
//! - N: number of outputs. Positional; as many as are connected by default.
//!
//! # Ports
//! One pull input; output 0 pull, any number of further push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: there was no free packet for a copy.
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
