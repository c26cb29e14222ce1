//! EtherMirror - swaps the source and destination Ethernet addresses of packets
//!
//! # Synopsis
//! `EtherMirror`
//!
//! # Description
//! Swaps the source and destination addresses in the Ethernet header at the start of each packet, and
//! marks it as the MAC header.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet is shorter than an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> EtherMirror -> Discard;
//! ```
//!
//! # See also
//! EtherRewrite, IPMirror

use millrace_core::headers::EthernetHeader;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::header::rewrite_header;

/// The element; its manual is at the top of the file.
pub struct EtherMirror;

register!(EtherMirror, "ether_mirror.rs");

impl Element for EtherMirror {
    const CLASS: Class = Class::new("EtherMirror", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for EtherMirror {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let mirrored = rewrite_header(packet, |header: &mut EthernetHeader| {
            std::mem::swap(&mut header.src, &mut header.dst);
        });
        match mirrored {
            true => Way::ON,
            false => Way::drop(Reason::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn swaps_addresses() {
        let mut rig = Rig::new("EtherMirror", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abcdefghijkl\x08\x00x"])[0], [b"ghijklabcdef\x08\x00x"]);
        assert!(rig.push(0, &["abc"])[0].is_empty());
        assert!(rig.stats().balanced());
    }
}
