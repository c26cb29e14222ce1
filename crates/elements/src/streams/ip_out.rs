//! IPOut - ends a path of IP packets, and corrects their header checksums
//!
//! # Synopsis
//! `IPOut([READONLY, keyword CHECKSUM])`
//!
//! # Description
//! Computes the checksum of IPv4 headers again. Lengths are right already: TCPOut and the elements before it correct
//! them with the payload.
//!
//! # Arguments
//! - READONLY: whether packets are forwarded as they are. Default false.
//! - CHECKSUM: whether the header's checksum is computed. Keyword, default true. In FastClick, false leaves it to the
//!   device; here the header is right without it, unless an element changed it and not its checksum.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> CTXManager -> IPIn -> IPOut -> Discard;
//! ```
//!
//! # See also
//! IPIn, TCPOut, SetIPChecksum

use millrace_core::headers::Ipv4Header;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct IpOut {
    sums: bool,
}

register!(IpOut, "ip_out.rs");

impl Element for IpOut {
    const CLASS: Class = Class::new("IPOut", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let reads_only = setup.args.positional("READONLY", false);
        let sums = setup.args.keyword("CHECKSUM", true);
        setup.args.complete()?;
        Ok(Self { sums: sums && !reads_only })
    }
}

impl PerPacket for IpOut {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if self.sums
            && let Some(bytes) = packet.network_data_mut()
        {
            Ipv4Header::fill_checksum(bytes);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::Datagram;

    #[test]
    fn the_checksum_is_corrected_unless_the_file_says_otherwise() {
        let right = Datagram::default().bytes();
        for (element, corrects) in
            [("IPOut", true), ("IPOut(READONLY true)", false), ("IPOut(CHECKSUM false)", false)]
        {
            let mut wrong = Datagram::default().packet();
            wrong.data_mut()[10] ^= 0xff;
            let out = Rig::new(element, 1, 1).unwrap().push_packets(0, vec![wrong]);
            assert_eq!(out[0][0].data() == right, corrects, "{element}");
        }
    }
}
