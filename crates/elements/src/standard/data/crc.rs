//! The CRC-32 checksum that SetCRC32 writes and CheckCRC32 verifies.

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

    #[test]
    fn the_crc_matches_the_catalogue() {
        // CRC-32/MPEG-2 of "123456789", in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0x0376_e6e7_u32.to_ne_bytes());
        assert_eq!(crc32(b""), [0xff; 4]);
    }
}
