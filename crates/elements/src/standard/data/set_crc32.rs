//! SetCRC32 - appends a CRC-32 checksum to packets
//!
//! # Synopsis
//! `SetCRC32`
//!
//! # Description
//! Computes the CRC of each packet, with Ethernet's polynomial, and appends it as four bytes in host byte order.
//! CheckCRC32 checks and removes them.
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
//! - too big: the packet would have more than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> SetCRC32 -> CheckCRC32 -> Discard;
//! ```
//!
//! # See also
//! CheckCRC32

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::crc::crc32;
use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct SetCrc32;

register!(SetCrc32, "set_crc32.rs");

impl Element for SetCrc32 {
    const CLASS: Class = Class::new("SetCRC32", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for SetCrc32 {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if packet.len() + 4 > LONGEST {
            return Way::drop(Reason::TooBig);
        }
        let crc = crc32(packet.data());
        packet.append(crc.len()).copy_from_slice(&crc);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn appends_four_bytes() {
        let mut rig = Rig::new("SetCRC32", 1, 1).unwrap();
        let out = rig.push(0, &["123456789", ""]);
        assert_eq!(out[0][0][..9], *b"123456789");
        assert_eq!(out[0][0][9..], 0x0376_e6e7_u32.to_ne_bytes());
        assert_eq!(out[0][1], [0xff; 4]);
    }
}
