//! StoreAnno - writes a one-byte annotation into packet data
//!
//! # Synopsis
//! `StoreAnno(OFFSET [, ANNO, keyword GROW])`
//!
//! # Description
//! Writes the annotation ANNO of each packet into the packet, OFFSET bytes from its start.
//! Packets of OFFSET bytes or fewer are unchanged.
//!
//! # Arguments
//! - OFFSET: where to write, in bytes. Positional, mandatory.
//! - ANNO: one-byte annotation, by name or offset. Positional, default PAINT.
//! - GROW: accepted without effect: packets never need to grow.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Paint(3) -> StoreAnno(15) -> Discard;
//! ```
//!
//! # See also
//! StoreData, Paint

use millrace_core::args::{Annotation, Kind};
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use super::PAINT;

/// The element; its manual is at the top of the file.
pub struct StoreAnno {
    offset: usize,
    anno: usize,
}

register!(StoreAnno, "store_anno.rs");

impl Element for StoreAnno {
    const CLASS: Class = Class::new("StoreAnno", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: u32 = setup.args.mandatory("OFFSET");
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.ignored::<bool>("GROW", Kind::Keyword, "packets never need to grow");
        setup.args.complete()?;
        Ok(Self { offset: offset as usize, anno })
    }
}

impl PerPacket for StoreAnno {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let value = packet.anno_u8(self.anno);
        if packet.len() > self.offset
            && let Some(byte) = packet.data_mut().get_mut(self.offset)
        {
            *byte = value;
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn writes_the_annotation_into_the_packet() {
        let mut rig = Rig::new("StoreAnno(1)", 1, 1).unwrap();
        for (before, after) in [("abc", "aXc"), ("ab", "aX"), ("a", "a")] {
            let mut packet = Packet::from_bytes(before.as_bytes()).unwrap();
            packet.set_paint(b'X');
            assert_eq!(rig.push_packets(0, vec![packet])[0][0].data(), after.as_bytes());
        }
    }
}
