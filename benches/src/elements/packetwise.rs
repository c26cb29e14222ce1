//! BenchPacketwise - paints packets by the length of their data, one at a time
//!
//! The twin of BenchBatchwise, written as most elements are: for one packet.

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

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
}

impl PerPacket for BenchPacketwise {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_paint(packet.len() as u8);
        Way::ON
    }
}
