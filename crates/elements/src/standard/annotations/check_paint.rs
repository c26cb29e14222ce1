//! CheckPaint - separates packets with a given paint from the others
//!
//! # Synopsis
//! `CheckPaint(COLOR [, ANNO])`
//!
//! # Description
//! Sends packets whose annotation ANNO equals COLOR to output 0. Sends other packets to output 1, or drops
//! them if output 1 is not connected.
//!
//! # Arguments
//! - COLOR: 0 to 255. Positional, mandatory.
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional.
//!
//! # Handlers
//! - `color` (read, write): the COLOR argument.
//! - `anno` (read): the annotation's offset.
//! - `config` (read, write): the arguments; COLOR may change while packets run.
//!
//! # Drops
//! - filtered: the packet has another paint, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(3) -> CheckPaint(3) -> Discard;
//! ```
//!
//! # See also
//! Paint, PaintTee, PaintSwitch

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::paint::Color;

/// The element; its manual is at the top of the file.
pub struct CheckPaint {
    color: Color,
}

register!(CheckPaint, "check_paint.rs");

impl Element for CheckPaint {
    const CLASS: Class = Class::new("CheckPaint", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { color: Color::configure(setup)? })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Color::handlers(handlers, |check| &check.color);
    }
}

impl PerPacket for CheckPaint {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.color.is_on(packet) {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::Filtered),
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
    fn separates_packets_by_paint() {
        let mut rig = Rig::new("CheckPaint(2)", 1, 2).unwrap();
        let out = rig.push_packets(0, [1, 2, 3].map(painted).into());
        assert_eq!(out[0].iter().map(Packet::data).collect::<Vec<_>>(), [[2]]);
        assert_eq!(out[1].iter().map(Packet::data).collect::<Vec<_>>(), [[1], [3]]);
    }

    #[test]
    fn drops_other_paints_without_a_second_output() {
        let mut rig = Rig::new("CheckPaint(2)", 1, 1).unwrap();
        assert!(rig.push_packets(0, vec![painted(1)])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]);
    }
}
