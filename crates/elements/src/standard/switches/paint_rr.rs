//! PaintRR - distributes packets over outputs by their paint
//!
//! # Synopsis
//! `PaintRR([ANNO])`
//!
//! # Description
//! Sends each packet to the output whose number is the packet's annotation ANNO modulo the number of outputs.
//!
//! # Arguments
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(5) -> s :: PaintRR;
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! PaintSwitch, Paint, RoundRobinSwitch

use millrace_core::args::Annotation;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use crate::standard::annotations::PAINT;

/// The element; its manual is at the top of the file.
pub struct PaintRR {
    /// Offset of the annotation.
    anno: usize,
    outputs: usize,
}

register!(PaintRR, "paint_rr.rs");

impl Element for PaintRR {
    const CLASS: Class = Class::new("PaintRR", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.complete()?;
        Ok(Self { anno, outputs: setup.outputs().max(1) })
    }
}

impl PerPacket for PaintRR {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::output((usize::from(packet.anno_u8(self.anno)) % self.outputs) as u16)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn the_output_is_the_paint_modulo_the_outputs() {
        let mut rig = Rig::new("PaintRR", 1, 3).unwrap();
        let painted = |paint: u8| {
            let mut packet = Packet::from_bytes(&[paint]).unwrap();
            packet.set_paint(paint);
            packet
        };
        let out = rig.push_packets(0, [0, 4, 255, 8].map(painted).into());
        let data = |port: usize| out[port].iter().map(Packet::data).collect::<Vec<_>>();
        assert_eq!(
            (data(0), data(1), data(2)),
            (vec![&[0][..], &[255]], vec![&[4][..]], vec![&[8][..]])
        );
    }
}
