//! Unstrip - restores stripped bytes at the front of packets
//!
//! # Synopsis
//! `Unstrip(LENGTH)`
//!
//! # Description
//! Adds LENGTH bytes to the front of each packet. The added bytes are those that Strip removed, if it did; otherwise
//! they are whatever the headroom contains.
//!
//! # Arguments
//! - LENGTH: number of bytes to add, at most 65535. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: there is not enough headroom, and the packet would have more than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Strip(14) -> Unstrip(14) -> Discard;
//! ```
//!
//! # See also
//! Strip

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct Unstrip {
    length: usize,
}

/// The longest packet for which room is made.
const LONGEST: usize = 65_535;

register!(Unstrip, "unstrip.rs");

impl Element for Unstrip {
    const CLASS: Class = Class::new("Unstrip", "1/1", "a/a").aliases(&["FlowUnstrip"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length = setup.args.in_range("LENGTH", Kind::Mandatory, 0..=65_535u32);
        setup.args.complete()?;
        Ok(Self { length: length.unwrap_or(0) as usize })
    }
}

impl PerPacket for Unstrip {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if !packet.unstrip(self.length) {
            if packet.len() + self.length > LONGEST {
                return Way::drop(Reason::TooBig);
            }
            // Not enough headroom: `prepend` moves the packet to make room.
            packet.prepend(self.length);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn restores_stripped_bytes() {
        let mut packet = Packet::from_bytes(b"abcd").unwrap();
        assert!(packet.strip(3));
        let mut rig = Rig::new("Unstrip(2)", 1, 1).unwrap();
        assert_eq!(rig.push_packets(0, vec![packet])[0][0].data(), b"bcd");
    }

    #[test]
    fn makes_headroom_if_there_is_not_enough() {
        let mut rig = Rig::new("Unstrip(2000)", 1, 1).unwrap();
        let out = rig.push(0, &["abc"]);
        assert_eq!(out[0][0].len(), 2003);
        assert_eq!(out[0][0][2000..], *b"abc");
    }

    /// In a loop, say.
    #[test]
    fn packets_do_not_grow_for_ever() {
        let mut rig = Rig::new("Unstrip(65533)", 1, 1).unwrap();
        let out = rig.push(0, &["ab", "abc"]);
        assert_eq!((out[0].len(), out[0][0].len()), (1, 65_535));
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
