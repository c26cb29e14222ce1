//! StripToNetworkHeader - strips everything before the network header of packets
//!
//! # Synopsis
//! `StripToNetworkHeader`
//!
//! # Description
//! Removes the bytes before each packet's network header. If the network header lies before the packet data, in the
//! headroom, restores the bytes from the header on instead. Elements such as MarkIPHeader and CheckIPHeader set the
//! network header position.
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
//! - header not set: the packet has no network header, or it lies beyond the end of the packet.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> MarkIPHeader(14) -> StripToNetworkHeader -> Discard;
//! ```
//!
//! # See also
//! Strip, MarkIPHeader, CheckIPHeader

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StripToNetworkHeader;

register!(StripToNetworkHeader, "strip_to_network_header.rs");

impl Element for StripToNetworkHeader {
    const CLASS: Class = Class::new("StripToNetworkHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for StripToNetworkHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let found = match packet.network_header() {
            Some(offset @ 0..) => packet.strip(offset.unsigned_abs()),
            Some(offset) => packet.unstrip(offset.unsigned_abs()),
            None => false,
        };
        if found { Way::ON } else { Way::drop(Reason::NoHeader) }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn packets_begin_with_their_network_header() {
        let mut rig = Rig::new("StripToNetworkHeader", 1, 1).unwrap();
        for stripped in 0..6 {
            let mut packet = Packet::from_bytes(b"abcdef").unwrap();
            packet.set_network_header(3, 2);
            assert!(packet.strip(stripped));
            let packet = rig.push_packets(0, vec![packet])[0].remove(0);
            assert_eq!(packet.data(), b"def");
            assert_eq!(packet.network_header(), Some(0));
        }
        assert!(rig.push(0, &["abc"])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }
}
