//! Paint2 - sets the two-byte paint annotation of packets
//!
//! # Synopsis
//! `Paint2(COLOR [, ANNO])`
//!
//! # Description
//! Sets the annotation ANNO of each packet, a 16-bit number in host byte order, to COLOR.
//!
//! # Arguments
//! - COLOR: 0 to 65535. Positional, mandatory.
//! - ANNO: two-byte annotation, by name or offset. Positional, default 16; its first byte is then PAINT.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `color` (read, write): the COLOR argument.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Strip(14) -> Paint2(14) -> UnstripAnno -> Discard;
//! ```
//!
//! # See also
//! Paint, UnstripAnno

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::PAINT2;

/// The element; its manual is at the top of the file.
pub struct Paint2 {
    color: AtomicU16,
    /// Offset of the annotation.
    anno: usize,
}

register!(Paint2, "paint2.rs");

impl Element for Paint2 {
    const CLASS: Class = Class::new("Paint2", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let color: u16 = setup.args.mandatory("COLOR");
        let Annotation(anno) = setup.args.positional("ANNO", PAINT2);
        setup.args.complete()?;
        Ok(Self { color: color.into(), anno })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("color", |paint, _| paint.color.load(Relaxed));
        handlers.write("color", |paint, call| {
            paint.color.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for Paint2 {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_anno_u16(self.anno, self.color.load(Relaxed));
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn sets_the_paint() {
        let mut rig = Rig::new("Paint2(1000)", 1, 1).unwrap();
        let paint = |rig: &mut Rig| {
            let packet = Packet::from_bytes(b"a").unwrap();
            rig.push_packets(0, vec![packet])[0][0].anno_u16(16)
        };
        assert_eq!(paint(&mut rig), 1000);
        rig.write("color", "9").unwrap();
        assert_eq!(paint(&mut rig), 9);
        assert!(Rig::new("Paint2(65536)", 1, 1).is_err());
        assert!(Rig::new("Paint2(1, PAINT)", 1, 1).is_err());
    }
}
