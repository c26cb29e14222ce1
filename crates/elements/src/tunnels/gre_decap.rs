//! GREDecap - checks and removes the GRE header of packets
//!
//! # Synopsis
//! `GREDecap([keywords PROTOCOL, KEY])`
//!
//! # Description
//! Checks the GRE header (RFC 2784, RFC 2890) at the start of each packet, including its checksum if it has one, and
//! removes it. Sequence numbers are not checked.
//!
//! # Arguments
//! - PROTOCOL: the EtherType that the header must have. Keyword, default any.
//! - KEY: the key that the header must have. Keyword, default any or none.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: decapsulated packets. Output 1, push, optional: packets that fail the
//! checks, unchanged.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is shorter than its header.
//! - bad version: the version is not 0, or a bit that must be zero is set.
//! - bad checksum: the GRE checksum is wrong.
//! - no match: the header has another PROTOCOL or KEY.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<2000 0800 00000007 4500>, LIMIT 10)
//!     -> GREDecap(KEY 7)
//!     -> Discard;
//! ```
//!
//! # See also
//! GREEncap, StripIPHeader

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, checksum, register,
};

use super::gre_encap;

/// The element; its manual is at the top of the file.
pub struct GreDecap {
    protocol: Option<u16>,
    key: Option<u32>,
}

register!(GreDecap, "gre_decap.rs");

impl Element for GreDecap {
    const CLASS: Class = Class::new("GREDecap", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let protocol = setup.args.optional_keyword("PROTOCOL");
        let key = setup.args.optional_keyword("KEY");
        setup.args.complete()?;
        Ok(Self { protocol, key })
    }
}

impl PerPacket for GreDecap {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.unwrap(packet) {
            Ok(()) => Way::ON,
            Err(reason) => Way::output_or_drop(1, reason),
        }
    }
}

impl GreDecap {
    fn unwrap(&self, packet: &mut View) -> Result<(), Reason> {
        let &[a, b, c, d] = packet.data().first_chunk::<4>().ok_or(Reason::Truncated)?;
        let (flags, protocol) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if flags & gre_encap::MUST_BE_ZERO != 0 {
            return Err(Reason::BadVersion);
        }
        let len = gre_encap::header_len(flags);
        let header = packet.data().get(..len).ok_or(Reason::Truncated)?;
        let summed = flags & gre_encap::CHECKSUM != 0;
        if summed && !checksum::verify(packet.data()) {
            return Err(Reason::BadChecksum);
        }
        let key_at = if summed { 8 } else { 4 };
        let key = header.get(key_at..).and_then(<[u8]>::first_chunk::<4>);
        let key = key.filter(|_| flags & gre_encap::KEY != 0).map(|key| u32::from_be_bytes(*key));
        let fits = self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.key.is_none_or(|wanted| key == Some(wanted));
        if !fits {
            return Err(Reason::NoMatch);
        }
        if packet.strip(len) { Ok(()) } else { Err(Reason::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::withstands;

    #[test]
    fn packets_that_fail_a_check_are_dropped_with_a_reason() {
        let mut rig = Rig::new("GREDecap(PROTOCOL 0x0800, KEY 7)", 1, 1).unwrap();
        let out = rig.push(
            0,
            &[
                &b"\x20\0\x08\0\0\0\0\x07x"[..],
                b"\x20\0\x08\0\0\0\0\x08x",
                b"\x20\0\x86\xdd\0\0\0\x07x",
                b"\0\0\x08\0x",
                b"\x20\x01\x08\0\0\0\0\x07x",
                b"\x20\0\x08\0\0\0\0",
                b"\xa0\0\x08\0\0\0\0\0\0\0\0\x07x",
            ],
        );
        assert_eq!(out[0], [b"x"]);
        let drops = [
            (Reason::Truncated, 1),
            (Reason::BadVersion, 1),
            (Reason::BadChecksum, 1),
            (Reason::NoMatch, 3),
        ];
        let mut found = rig.stats().drops;
        found.sort();
        let mut drops = drops.to_vec();
        drops.sort();
        assert_eq!(found, drops);
    }

    #[test]
    fn withstands_anything() {
        withstands("GREDecap", 1);
        withstands("GREDecap(KEY 1)", 2);
    }
}
