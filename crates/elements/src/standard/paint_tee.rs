//! PaintTee - copies packets that have a paint
//!
//! # Synopsis
//! `PaintTee(COLOR [, ANNO])`
//!
//! # Description
//! Sends every packet to output 0, and a copy of those whose annotation ANNO is COLOR to output 1.
//! IP routers use it to find packets that leave by the interface they came from, and to send a
//! redirect for them.
//!
//! # Arguments
//! - COLOR: 0 to 255. Positional, mandatory.
//! - ANNO: annotation of one byte, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push.
//!
//! # Handlers
//! - `color` (read, write): the color.
//!
//! # Drops
//! - no buffer: there was no free packet for a copy.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(3) -> p :: PaintTee(3) -> Discard;
//! p [1] -> Discard;
//! ```
//!
//! # See also
//! Paint, CheckPaint, Tee

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};

use super::PAINT;

/// The element; its manual is at the top of the file.
pub struct PaintTee {
    color: AtomicU8,
    /// Offset of the annotation.
    anno: usize,
}

register!(PaintTee, "paint_tee.rs");

impl Element for PaintTee {
    const CLASS: Class = Class::new("PaintTee", "1/2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let color: u8 = setup.args.mandatory("COLOR");
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.complete()?;
        Ok(Self { color: color.into(), anno })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let color = self.color.load(Relaxed);
        batch.for_each(|packet| {
            if packet.anno_u8(self.anno) == color {
                cx.created(1);
                match packet.share() {
                    Some(copy) => cx.push(1, copy),
                    None => cx.dropped(1, Reason::NoBuffer),
                }
            }
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("color", |tee, _| tee.color.load(Relaxed));
        handlers.write("color", |tee, call| {
            tee.color.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn copies_what_has_the_paint() {
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
