//! BenchPacketwise - paints packets by the length of their data, one at a time
//!
//! The twin of BenchBatchwise, written as most elements are: for one packet, lifted to batches by the engine.

use millrace_core::{Class, Context, Element, Failed, Packet, Setup, register};

use super::batchwise::paint;

/// The per-packet twin.
struct BenchPacketwise;

register!(BenchPacketwise, "packetwise.rs");

impl Element for BenchPacketwise {
    const CLASS: Class = Class::new("BenchPacketwise", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn simple_action(&self, _cx: &mut Context, (): &mut (), mut packet: Packet) -> Option<Packet> {
        paint(&mut packet);
        Some(packet)
    }
}
