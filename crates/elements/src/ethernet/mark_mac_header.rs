//! MarkMACHeader - sets the MAC header position of packets
//!
//! # Synopsis
//! `MarkMACHeader([OFFSET, HEADERLENGTH])`
//!
//! # Description
//! Marks the bytes from OFFSET on as each packet's MAC header. With HEADERLENGTH, it also marks the
//! network header, that many bytes later.
//!
//! # Arguments
//! - OFFSET: in bytes. Positional, default 0.
//! - HEADERLENGTH: length of the MAC header; 0 leaves the network header unchanged. Positional, default
//!   0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet is shorter than OFFSET plus HEADERLENGTH.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> MarkMACHeader -> Discard;
//! ```
//!
//! # See also
//! MarkIPHeader, EtherEncap

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct MarkMacHeader {
    offset: u16,
    header_length: u16,
}

register!(MarkMacHeader, "mark_mac_header.rs");

impl Element for MarkMacHeader {
    const CLASS: Class = Class::new("MarkMACHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset = setup.args.positional("OFFSET", 0);
        let header_length = setup.args.positional("HEADERLENGTH", 0);
        setup.args.complete()?;
        Ok(Self { offset, header_length })
    }
}

impl PerPacket for MarkMacHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let end = usize::from(self.offset) + usize::from(self.header_length);
        if packet.len() < end {
            return Way::drop(Reason::Truncated);
        }
        packet.set_mac_header(self.offset as isize);
        if self.header_length > 0 {
            packet.set_network_header(end as isize, 0);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn marks_headers() {
        let mut rig = Rig::new("MarkMACHeader(2, 3)", 1, 1).unwrap();
        let packets = ["abcdefg", "abc"].map(|data| Packet::from_bytes(data.as_bytes()).unwrap());
        let out = rig.push_packets(0, packets.into());
        assert_eq!(out[0].len(), 1);
        assert_eq!(out[0][0].mac_header(), Some(2));
        assert_eq!(out[0][0].network_header(), Some(5));
    }
}
