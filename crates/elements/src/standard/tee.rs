//! Tee - duplicates packets to every output; the clones share data
//!
//! # Synopsis
//! `Tee([N])`
//!
//! # Description
//! Sends a clone of each packet to every output. Clones share the packet's data; an element that modifies a clone
//! copies the data first.
//!
//! # Arguments
//! - N: number of outputs; must equal the number connected. Positional, default: the number connected.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: no packet memory was free for a clone.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> t :: Tee -> Counter -> Discard;
//! t [1] -> Discard;
//! ```
//!
//! # See also
//! PullTee, Switch

use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Tee;

register!(Tee, "tee.rs");

impl Element for Tee {
    const CLASS: Class = Class::new("Tee", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        check_outputs(setup)?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let last = cx.outputs().saturating_sub(1);
        for port in 0..last {
            push_copies(cx, port, batch);
        }
        cx.push_batch(last, batch);
    }
}

/// Reads N, which must be the number of outputs, and completes the arguments.
pub(super) fn check_outputs(setup: &mut Setup<'_>) -> Result<(), Failed> {
    let outputs = setup.outputs();
    let n: u32 = setup.args.positional("N", u32::try_from(outputs).unwrap_or(u32::MAX));
    if n as usize != outputs {
        setup.args.error("N", format!("{outputs} outputs implies {outputs} arms"));
    }
    setup.args.complete()
}

/// Pushes clones of all packets of a batch to an output.
pub(super) fn push_copies(cx: &mut Context, port: usize, batch: &Batch) {
    push_made(cx, port, batch, Packet::share);
}

/// Pushes copies of all packets of a batch, made by `copy`, to an output.
pub(super) fn push_made(
    cx: &mut Context,
    port: usize,
    batch: &Batch,
    copy: impl Fn(&Packet) -> Option<Packet>,
) {
    let mut copies = cx.take_batch();
    for packet in batch.iter() {
        // The push succeeds: both batches have the same capacity.
        let copied = copy(packet).is_some_and(|copy| copies.push(copy).is_ok());
        if !copied {
            cx.dropped(1, Reason::NoBuffer);
        }
    }
    cx.created(batch.len());
    cx.push_batch(port, &mut copies);
    cx.give_batch(copies);
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn gives_each_output_every_packet_in_order() {
        let mut rig = Rig::new("Tee", 1, 3).unwrap();
        let out = rig.push(0, &["a", "b"]);
        assert_eq!(out, vec![vec![b"a".to_vec(), b"b".to_vec()]; 3]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn refuses_a_wrong_number_of_outputs() {
        assert!(Rig::new("Tee(2)", 1, 3).is_err());
    }
}
