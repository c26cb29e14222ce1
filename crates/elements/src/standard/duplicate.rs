//! Duplicate - copies packets to every output; the copies share no data
//!
//! # Synopsis
//! `Duplicate([N, keyword DATA_ONLY])`
//!
//! # Description
//! Sends a copy of each packet to every output. Unlike the clones that Tee makes, the copies share no data,
//! so an element downstream can modify a packet without copying it first.
//!
//! # Arguments
//! - N: number of outputs; must equal the number connected. Positional, default: the number connected.
//! - DATA_ONLY: accepted without effect: a copy always includes the packet's headroom. Its tailroom can differ.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: no packet memory was free for a copy.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> d :: Duplicate(2);
//! d [0] -> Discard;
//! d [1] -> Discard;
//! ```
//!
//! # See also
//! Tee, Hub

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Setup, register};

use super::tee::{check_outputs, push_made};

/// The element; its manual is at the top of the file.
pub struct Duplicate;

register!(Duplicate, "duplicate.rs");

impl Element for Duplicate {
    const CLASS: Class = Class::new("Duplicate", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.ignored::<bool>(
            "DATA_ONLY",
            Kind::Keyword,
            "a copy always includes the packet's headroom",
        );
        check_outputs(setup)?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let last = cx.outputs().saturating_sub(1);
        for port in 0..last {
            push_made(cx, port, batch, Packet::copy);
        }
        cx.push_batch(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn copies_share_nothing() {
        let mut rig = Rig::new("Duplicate", 1, 3).unwrap();
        let out = rig.push_packets(0, vec![Packet::from_bytes(b"abc").unwrap()]);
        assert!(out.iter().all(|port| port[0].data() == b"abc" && !port[0].is_shared()));
        assert!(rig.stats().balanced());
        assert!(Rig::new("Duplicate(2)", 1, 3).is_err());
    }
}
