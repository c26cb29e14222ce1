//! MarkIPHeader - sets the position of the IP header without checking it
//!
//! # Synopsis
//! `MarkIPHeader([OFFSET])`
//!
//! # Description
//! Records that the IP header starts OFFSET bytes into the packet and that the transport header follows it. Does not
//! check or shorten the packet, and does not set the destination annotation; CheckIPHeader does all that.
//!
//! If a packet ends at or before OFFSET, its network and transport header positions are cleared.
//!
//! # Arguments
//! - OFFSET: number of bytes before the IP header. Positional, default 0.
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
//! InfiniteSource(DATA \<45000014 00000000 40110000 01000001 02000002>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> SetIPChecksum
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, CheckIPHeader2, StripIPHeader

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct MarkIpHeader {
    offset: u32,
}

register!(MarkIpHeader, "mark_ip_header.rs");

impl Element for MarkIpHeader {
    const CLASS: Class = Class::new("MarkIPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset = setup.args.positional("OFFSET", 0);
        setup.args.complete()?;
        Ok(Self { offset })
    }
}

impl PerPacket for MarkIpHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.data().get(self.offset as usize) {
            Some(version_ihl) => {
                let header_len = usize::from(version_ihl & 0xf) * 4;
                packet.set_network_header(self.offset as isize, header_len);
            }
            None => {
                packet.clear_network_header();
                packet.clear_transport_header();
            }
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::withstands;

    #[test]
    fn marks_network_and_transport_header() {
        let mut rig = Rig::new("MarkIPHeader(2)", 1, 1).unwrap();
        let mut bytes = vec![0; 40];
        bytes[2] = 0x46;
        let out = rig.push_packets(0, vec![Packet::from_bytes(&bytes).unwrap()]);
        assert_eq!(out[0][0].network_header(), Some(2));
        assert_eq!(out[0][0].transport_header(), Some(26));
    }

    #[test]
    fn old_header_positions_are_cleared_if_the_packet_is_too_short() {
        let mut rig = Rig::new("MarkIPHeader(OFFSET 14)", 1, 1).unwrap();
        let mut packet = Packet::from_bytes(&[0x45; 14]).unwrap();
        packet.set_network_header(0, 4);
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!((out[0][0].network_header(), out[0][0].transport_header()), (None, None));
    }

    #[test]
    fn withstands_anything() {
        withstands("MarkIPHeader(3)", 1);
    }
}
