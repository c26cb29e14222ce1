//! PaintTee - sends clones of packets with a given paint to output 1
//!
//! # Synopsis
//! `PaintTee(COLOR [, ANNO])`
//!
//! # Description
//! Sends every packet to output 0. Sends a clone of each packet whose annotation ANNO equals COLOR to output 1.
//! IP routers use it to detect packets that leave by the interface on which they arrived, and to send an ICMP
//! redirect for them.
//!
//! # Arguments
//! - COLOR: 0 to 255. Positional, mandatory.
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push.
//!
//! # Handlers
//! - `color` (read, write): the COLOR argument.
//! - `anno` (read): the annotation's offset.
//! - `config` (read, write): the arguments; COLOR may change while packets run.
//!
//! # Drops
//! - no buffer: no packet memory was free for a clone.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(3) -> p :: PaintTee(3) -> Discard;
//! p [1] -> Discard;
//! ```
//!
//! # See also
//! Paint, CheckPaint, Tee

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Moment, Packet, PerPacket, Reason, Setup, View, Way,
    register,
};

use super::paint::Color;

/// The element; its manual is at the top of the file.
pub struct PaintTee {
    color: Color,
}

register!(PaintTee, "paint_tee.rs");

impl Element for PaintTee {
    const CLASS: Class = Class::new("PaintTee", "1/2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { color: Color::configure(setup)? })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Color::handlers(handlers, |tee| &tee.color);
    }
}

impl PerPacket for PaintTee {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.color.is_on(packet) {
            true => Way::aside(0),
            false => Way::ON,
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, _: Way) -> Option<Packet> {
        cx.created(1);
        match packet.share() {
            Some(copy) => cx.push(1, copy),
            None => cx.dropped(1, Reason::NoBuffer),
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn clones_packets_with_the_paint() {
        let mut rig = Rig::new("PaintTee(2)", 1, 2).unwrap();
        let packets = [1u8, 2, 2].map(|paint| {
            let mut packet = Packet::from_bytes(&[paint]).unwrap();
            packet.set_paint(paint);
            packet
        });
        let out = rig.push_packets(0, packets.into());
        assert_eq!((out[0].len(), out[1].len()), (3, 2));
        assert!(out[1].iter().all(|packet| packet.paint() == 2));
        assert!(rig.stats().balanced());
    }
}
