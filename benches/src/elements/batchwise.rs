//! BenchBatchwise - paints packets by the length of their data, a batch at a time
//!
//! BenchPacketwise and BenchOneByOne do the same packet by packet.

use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Setup, register};

/// The batch twin.
struct BenchBatchwise;

register!(BenchBatchwise, "batchwise.rs");

impl Element for BenchBatchwise {
    const CLASS: Class = Class::new("BenchBatchwise", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        batch.for_each(paint);
        cx.push_batch(0, batch);
    }
}

/// What the three elements do with a packet.
#[inline]
pub(super) fn paint(packet: &mut Packet) {
    packet.set_paint(packet.len() as u8);
}
