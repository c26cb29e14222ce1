//! EnsureHeadroom - guarantees free space before the packet data
//!
//! # Synopsis
//! `EnsureHeadroom([HEADROOM])`
//!
//! # Description
//! Moves the data of packets that have less than HEADROOM bytes of headroom, so that elements downstream can
//! prepend headers without copying. The packet's bytes do not change.
//!
//! # Arguments
//! - HEADROOM: minimum headroom in bytes, at most 65535. Positional, default 128.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: packet and headroom together would exceed 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> EnsureHeadroom(64) -> Discard;
//! ```
//!
//! # See also
//! Align, Unstrip, EtherEncap

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct EnsureHeadroom {
    headroom: usize,
}

register!(EnsureHeadroom, "ensure_headroom.rs");

impl Element for EnsureHeadroom {
    const CLASS: Class = Class::new("EnsureHeadroom", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let headroom: Option<u16> = setup.args.read("HEADROOM", Kind::Positional);
        setup.args.complete()?;
        Ok(Self { headroom: headroom.map_or(128, usize::from) })
    }
}

impl PerPacket for EnsureHeadroom {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if packet.headroom() < self.headroom {
            if packet.len() + self.headroom > LONGEST {
                return Way::drop(Reason::TooBig);
            }
            packet.prepend(self.headroom);
            // This cannot fail: the bytes were just prepended.
            let _ = packet.strip(self.headroom);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn makes_headroom_and_keeps_the_bytes() {
        let mut rig = Rig::new("EnsureHeadroom(1000)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![Packet::from_bytes(b"abc").unwrap()]);
        assert!(out[0][0].headroom() >= 1000);
        assert_eq!(out[0][0].data(), b"abc");
        let mut rig = Rig::new("EnsureHeadroom(65535)", 1, 1).unwrap();
        assert!(rig.push(0, &["abc"])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
