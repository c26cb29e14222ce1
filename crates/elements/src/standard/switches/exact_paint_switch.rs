//! ExactPaintSwitch - sends packets to the output that is mapped to their paint
//!
//! # Synopsis
//! `ExactPaintSwitch([ANNO, keywords MAP, DEFAULT])`
//!
//! # Description
//! Sends each packet to the output that MAP assigns to the value of its annotation ANNO. Packets with other values go
//! to output DEFAULT, or are dropped if there is no DEFAULT.
//!
//! # Arguments
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//! - MAP: a paint, 0 to 255. Repeatable: the Nth MAP, counted from 0, assigns its paint to output N.
//! - DEFAULT: output for other paints; negative to drop. Default -1.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no match: no MAP has the paint, and there is no DEFAULT; or MAP assigns an output that does not exist.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(7) -> s :: ExactPaintSwitch(MAP 3, MAP 7, DEFAULT 0);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! PaintSwitch, PaintRR, Paint

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::annotations::PAINT;

/// The element; its manual is at the top of the file.
pub struct ExactPaintSwitch {
    /// Offset of the annotation.
    anno: usize,
    /// The output for each paint.
    outputs: [Option<usize>; 256],
}

register!(ExactPaintSwitch, "exact_paint_switch.rs");

impl Element for ExactPaintSwitch {
    const CLASS: Class = Class::new("ExactPaintSwitch", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        let default: i32 = setup.args.keyword("DEFAULT", -1);
        let map: Vec<i32> = setup.args.repeated("MAP");
        setup.args.complete()?;
        let default = usize::try_from(default).ok();
        if default.is_some_and(|output| output >= setup.outputs()) {
            let message = "Default port cannot be higher than the number of ports!";
            setup.args.error("DEFAULT", message);
            return Err(Failed);
        }
        let mut outputs = [default; 256];
        for (output, paint) in map.into_iter().enumerate() {
            match usize::try_from(paint).ok().and_then(|paint| outputs.get_mut(paint)) {
                Some(place) => *place = Some(output),
                None => {
                    setup.args.error("MAP", format!("Invalid Paint offset {paint}"));
                    return Err(Failed);
                }
            }
        }
        Ok(Self { anno, outputs })
    }
}

impl PerPacket for ExactPaintSwitch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let paint = usize::from(packet.anno_u8(self.anno));
        match self.outputs.get(paint).copied().flatten() {
            Some(output) => Way::output_or_drop(output as u16, Reason::NoMatch),
            None => Way::drop(Reason::NoMatch),
        }
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
    fn the_map_selects_the_output() {
        for (element, other) in [
            ("ExactPaintSwitch(MAP 9, MAP 255)", 0),
            ("ExactPaintSwitch(MAP 9, DEFAULT 1, MAP 255)", 3),
        ] {
            let mut rig = Rig::new(element, 1, 2).unwrap();
            let out = rig.push_packets(0, [9, 255, 0, 1, 8, 9].map(painted).into());
            assert_eq!((out[0].len(), out[1].len()), (2, 1 + other));
            let dropped = rig.stats().drops;
            assert_eq!(dropped, if other == 0 { vec![(Reason::NoMatch, 3)] } else { vec![] });
        }
        for wrong in ["MAP 256", "MAP -1", "DEFAULT 2"] {
            assert!(Rig::new(&format!("ExactPaintSwitch({wrong})"), 1, 2).is_err(), "{wrong}");
        }
    }
}
