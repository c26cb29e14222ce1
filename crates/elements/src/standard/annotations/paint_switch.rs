//! PaintSwitch - sends packets to the output whose number is their paint
//!
//! # Synopsis
//! `PaintSwitch([ANNO])`
//!
//! # Description
//! Sends each packet to the output whose number is in its annotation ANNO. If the number is 255, every output
//! receives a clone. If there is no output with that number, the packet is dropped.
//!
//! # Arguments
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no match: there is no output with the paint's number.
//! - no buffer: no packet memory was free for a clone.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(1) -> s :: PaintSwitch;
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! Paint, Switch, CheckPaint

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Context, Element, Failed, Moment, Packet, PerPacket, Reason, Setup, View, Way, register,
};

use super::PAINT;

/// The element; its manual is at the top of the file.
pub struct PaintSwitch {
    /// Offset of the annotation.
    anno: usize,
    outputs: usize,
}

register!(PaintSwitch, "paint_switch.rs");

/// The paint that selects all outputs.
const ALL: u8 = 255;

impl Element for PaintSwitch {
    const CLASS: Class = Class::new("PaintSwitch", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.complete()?;
        Ok(Self { anno, outputs: setup.outputs() })
    }
}

impl PerPacket for PaintSwitch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.anno_u8(self.anno) {
            ALL if self.outputs > 0 => Way::aside(0),
            paint => Way::output_or_drop(paint.into(), Reason::NoMatch),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.note().is_none() {
            return cx.send_or_drop(packet, way);
        }
        for port in 1..self.outputs {
            cx.created(1);
            match packet.share() {
                Some(copy) => cx.push(port, copy),
                None => cx.dropped(1, Reason::NoBuffer),
            }
        }
        cx.push(0, packet);
        None
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    fn painted(paint: u8) -> Packet {
        let mut packet = Packet::from_bytes(&[paint]).unwrap();
        packet.set_paint(paint);
        packet
    }

    #[test]
    fn the_paint_selects_the_output() {
        let mut rig = Rig::new("PaintSwitch", 1, 2).unwrap();
        let out = rig.push_packets(0, [1, 0, 1].map(painted).into());
        assert_eq!((out[0].len(), out[1].len()), (1, 2));
        let out = rig.push_packets(0, [255, 2, 1].map(painted).into());
        assert_eq!((out[0].len(), out[1].len()), (1, 2));
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 1)]);
        assert!(rig.stats().balanced());
    }
}
