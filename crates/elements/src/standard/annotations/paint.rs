//! Paint - sets the paint annotation of packets
//!
//! # Synopsis
//! `Paint(COLOR [, ANNO])`
//!
//! # Description
//! Sets the annotation ANNO of each packet to COLOR.
//!
//! # Arguments
//! - COLOR: 0 to 255. Positional, mandatory.
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `color` (read, write): the COLOR argument.
//! - `anno` (read): the annotation's offset.
//! - `config` (read, write): the arguments; COLOR may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(3) -> Discard;
//! ```
//!
//! # See also
//! CheckPaint, PaintTee, PaintSwitch

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::PAINT;

/// The element; its manual is at the top of the file.
pub struct Paint {
    color: Color,
}

register!(Paint, "paint.rs");

impl Element for Paint {
    const CLASS: Class = Class::new("Paint", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { color: Color::configure(setup)? })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Color::handlers(handlers, |paint| &paint.color);
    }
}

impl PerPacket for Paint {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.color.paint(packet);
        Way::ON
    }
}

/// A color, and the annotation that holds packets' colors.
pub(super) struct Color {
    value: AtomicU8,
    /// Offset of the annotation.
    anno: usize,
}

impl Color {
    /// Reads COLOR and ANNO, and completes the arguments.
    pub(super) fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let value: u8 = setup.args.mandatory("COLOR");
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.complete()?;
        Ok(Self { value: value.into(), anno })
    }

    /// Whether a packet has the color.
    #[inline(always)]
    pub(super) fn is_on(&self, packet: &View) -> bool {
        packet.anno_u8(self.anno) == self.get()
    }

    /// Sets a packet's annotation to the color.
    #[inline(always)]
    pub(super) fn paint(&self, packet: &mut View) {
        packet.set_anno_u8(self.anno, self.get());
    }

    /// The current color.
    pub(super) fn get(&self) -> u8 {
        self.value.load(Relaxed)
    }

    /// The handlers `anno`, `color` and `config`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, color: fn(&E) -> &Self) {
        handlers.reconfigure(move |element, new| {
            let (color, new) = (color(element), color(&new));
            if color.anno != new.anno {
                return Err("ANNO cannot change while packets run".into());
            }
            color.value.store(new.get(), Relaxed);
            Ok(())
        });
        handlers.read("anno", move |element, _| color(element).anno);
        handlers.read("color", move |element, _| color(element).get());
        handlers.write("color", move |element, call| {
            color(element).value.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn sets_the_paint() {
        let mut rig = Rig::new("Paint(7)", 1, 1).unwrap();
        let paint = |rig: &mut Rig| {
            let packet = Packet::from_bytes(b"a").unwrap();
            rig.push_packets(0, vec![packet])[0][0].paint()
        };
        assert_eq!(paint(&mut rig), 7);
        rig.write("color", "9").unwrap();
        assert_eq!(paint(&mut rig), 9);
        assert!(Rig::new("Paint(256)", 1, 1).is_err());
        assert!(Rig::new("Paint(1, NOTHING)", 1, 1).is_err());
    }
}
