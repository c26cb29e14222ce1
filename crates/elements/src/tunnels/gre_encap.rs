//! GREEncap - prepends a GRE header to packets
//!
//! # Synopsis
//! `GREEncap(PROTOCOL [, keywords CHECKSUM, KEY, SEQUENCE])`
//!
//! # Description
//! Prepends a GRE header (RFC 2784, RFC 2890) to each packet. Use an IPEncap with protocol 47 after it.
//!
//! # Arguments
//! - PROTOCOL: the EtherType of the packets: 0x0800 for IPv4, 0x86dd for IPv6, 0x6558 for Ethernet frames. Positional,
//!   mandatory.
//! - CHECKSUM: whether to add a checksum of the GRE header and the packet. Keyword, default false.
//! - KEY: the tunnel's key. Keyword, default none.
//! - SEQUENCE: whether to add a sequence number, which counts up from 0. Keyword, default false.
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
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53)
//!     -> GREEncap(0x0800, KEY 7)
//!     -> IPEncap(gre, 192.0.2.1, 192.0.2.2)
//!     -> Discard;
//! ```
//!
//! # See also
//! GREDecap, IPEncap, VXLANEncap

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::checksum::Sum;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct GreEncap {
    flags: u16,
    protocol: u16,
    key: Option<u32>,
    /// The next sequence number.
    sequence: AtomicU32,
}

register!(GreEncap, "gre_encap.rs");

impl Element for GreEncap {
    const CLASS: Class = Class::new("GREEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let protocol = args.mandatory("PROTOCOL");
        let checksum = args.keyword("CHECKSUM", false);
        let key: Option<u32> = args.optional_keyword("KEY");
        let sequence = args.keyword("SEQUENCE", false);
        args.complete()?;
        let flags = [(checksum, CHECKSUM), (key.is_some(), KEY), (sequence, SEQUENCE)];
        let flags = flags.iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
        Ok(Self { flags, protocol, key, sequence: AtomicU32::new(0) })
    }
}

impl PerPacket for GreEncap {
    const PREPENDS: usize = header_len(u16::MAX);

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let mut header = Vec::with_capacity(header_len(self.flags));
        header.extend(self.flags.to_be_bytes());
        header.extend(self.protocol.to_be_bytes());
        let summed = self.flags & CHECKSUM != 0;
        if summed {
            header.extend([0; 4]);
        }
        if let Some(key) = self.key {
            header.extend(key.to_be_bytes());
        }
        if self.flags & SEQUENCE != 0 {
            header.extend(self.sequence.fetch_add(1, Relaxed).to_be_bytes());
        }
        let sum = summed.then(|| Sum::of(&header).add_bytes(packet.data()).finish());
        if let (Some(sum), Some(place)) = (sum, header.get_mut(4..6)) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
        packet.push_front(&header);
        Way::ON
    }
}

// The header (RFC 2784, RFC 2890).

/// A checksum and two zero bytes follow.
pub(super) const CHECKSUM: u16 = 0x8000;
/// A key follows.
pub(super) const KEY: u16 = 0x2000;
/// A sequence number follows.
pub(super) const SEQUENCE: u16 = 0x1000;
/// Bits that must be zero, including the version (RFC 2784, 2.3).
pub(super) const MUST_BE_ZERO: u16 = 0x4c07;

/// The length in bytes of a header with these flags.
pub(super) const fn header_len(flags: u16) -> usize {
    let optional = flags & (CHECKSUM | KEY | SEQUENCE);
    4 + 4 * optional.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::withstands;

    proptest! {
        #[test]
        fn decap_undoes_encap(
            data in prop::collection::vec(any::<u8>(), 0..300),
            checksum: bool,
            key in prop::option::of(any::<u32>()),
            sequence: bool,
        ) {
            let key = key.map(|key| format!(", KEY {key}")).unwrap_or_default();
            let encap =
                format!("GREEncap(0x6558, CHECKSUM {checksum}, SEQUENCE {sequence}{key})");
            let encap = RefCell::new(Rig::new(&encap, 1, 1).unwrap());
            let decap = format!("GREDecap(PROTOCOL 0x6558{key})");
            let decap = RefCell::new(Rig::new(&decap, 1, 1).unwrap());
            let wrapped = encap.borrow_mut().push(0, &[&data, &data]).remove(0);
            if checksum {
                prop_assert!(millrace_core::checksum::verify(&wrapped[0]));
            }
            let out = decap.borrow_mut().push(0, &wrapped).remove(0);
            prop_assert_eq!(out, vec![data.clone(), data]);
        }
    }

    #[test]
    fn the_header_is_as_configured() {
        let mut rig = Rig::new("GREEncap(0x0800, KEY 7, SEQUENCE true)", 1, 1).unwrap();
        let out = rig.push(0, &["a", "b"]).remove(0);
        assert_eq!(out[0], b"\x30\x00\x08\x00\0\0\0\x07\0\0\0\0a");
        assert_eq!(out[1], b"\x30\x00\x08\x00\0\0\0\x07\0\0\0\x01b");
        assert_eq!(
            Rig::new("GREEncap(0x86dd)", 1, 1).unwrap().push(0, &["a"])[0][0],
            b"\0\0\x86\xdda"
        );
    }

    #[test]
    fn withstands_anything() {
        withstands("GREEncap(1, CHECKSUM true, SEQUENCE true)", 1);
    }
}
