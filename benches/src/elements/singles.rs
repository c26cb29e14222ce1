//! BenchSingles - sends packets through the graph one at a time
//!
//! Input 0 takes a batch. Its first packet leaves by output 0 and goes all its way, while the rest leaves by
//! output 1, which the configuration connects to input 1 of the same element: from there the next one goes.
//! This is Click's traversal of the graph, behind a device that still receives a burst at a time.

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

/// Splits batches into single packets.
struct BenchSingles;

register!(BenchSingles, "singles.rs");

impl Element for BenchSingles {
    // It shows packets, so each goes its whole way before the next one.
    const CLASS: Class = Class::new("BenchSingles", "2/2", "h/h").shows_packets();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        if port == 0 {
            // Packets can be removed from the end of a reversed batch without moving the others.
            batch.reverse();
        }
        if let Some(packet) = batch.pop() {
            cx.push(0, packet);
        }
        cx.push_batch(1, batch);
    }
}
