//! UnstripAnno - restores as many stripped bytes as an annotation specifies
//!
//! # Synopsis
//! `UnstripAnno([ANNO])`
//!
//! # Description
//! Adds bytes to the front of each packet; the annotation ANNO, a 16-bit number in host byte order, specifies how
//! many. The added bytes are those that Strip removed, if it did; otherwise they are whatever the headroom
//! contains.
//!
//! # Arguments
//! - ANNO: two-byte annotation, by name or offset. Positional, default 16.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: the packet would have more than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Strip(14) -> Paint(14) -> UnstripAnno -> Discard;
//! ```
//!
//! # See also
//! Unstrip, Strip

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::PAINT2;
use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct UnstripAnno {
    anno: usize,
}

register!(UnstripAnno, "unstrip_anno.rs");

impl Element for UnstripAnno {
    const CLASS: Class = Class::new("UnstripAnno", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation(anno) = setup.args.positional("ANNO", PAINT2);
        setup.args.complete()?;
        Ok(Self { anno })
    }
}

impl PerPacket for UnstripAnno {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let length = usize::from(packet.anno_u16(self.anno));
        if packet.len() + length > LONGEST {
            return Way::drop(Reason::TooBig);
        }
        if !packet.unstrip(length) {
            packet.prepend(length);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn the_annotation_sets_the_number_of_bytes() {
        let mut rig = Rig::new("UnstripAnno", 1, 1).unwrap();
        let stripped = |length: u16| {
            let mut packet = Packet::from_bytes(b"abcdef").unwrap();
            assert!(packet.strip(4));
            packet.set_anno_u16(16, length);
            vec![packet]
        };
        assert_eq!(rig.push_packets(0, stripped(3))[0][0].data(), b"bcdef");
        assert_eq!(rig.push_packets(0, stripped(300))[0][0].len(), 302);
        assert!(rig.push_packets(0, stripped(65_535))[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
