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

/// The polynomial of Ethernet's CRC, most significant bit first, as in Click.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// The remainder for each value of the byte that is shifted out.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            let carry = rest >> 31 == 1;
            rest <<= 1;
            if carry {
                rest ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// The checksum of these bytes, in the byte order in which packets carry it.
pub(super) fn crc32(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        let [high, ..] = crc.to_be_bytes();
        crc << 8 ^ TABLE[usize::from(high ^ byte)]
    });
    crc.to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_core::testing::Rig;

    #[test]
    fn appends_four_bytes() {
        let mut rig = Rig::new("SetCRC32", 1, 1).unwrap();
        let out = rig.push(0, &["123456789", ""]);
        assert_eq!(out[0][0][..9], *b"123456789");
        assert_eq!(out[0][0][9..], 0x0376_e6e7_u32.to_ne_bytes());
        assert_eq!(out[0][1], [0xff; 4]);
    }

    #[test]
    fn the_crc_matches_the_catalogue() {
        // CRC-32/MPEG-2 of "123456789", in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0x0376_e6e7_u32.to_ne_bytes());
        assert_eq!(crc32(b""), [0xff; 4]);
    }
}
