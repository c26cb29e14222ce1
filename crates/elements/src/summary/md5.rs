//! MD5 (RFC 1321), which tells payloads apart in summary dumps. It keeps nothing secret any more.

/// Digests of so many bytes.
pub(super) const LEN: usize = 16;

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; LEN] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476u32];
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| mix(&mut state, block));
    let mut last = rest.to_vec();
    last.push(0x80);
    last.resize(if rest.len() < 56 { 56 } else { 120 }, 0);
    last.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    last.as_chunks::<64>().0.iter().for_each(|block| mix(&mut state, block));
    let mut digest = [0; LEN];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

fn mix(state: &mut [u32; 4], block: &[u8; 64]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let round = step / 16;
        let (mixed, index) = match round {
            0 => (b & c | !b & d, step),
            1 => (b & d | c & !d, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        // The sines of the steps' numbers, as the RFC defines the constants.
        let sine = ((step + 1) as f64).sin().abs() * 4_294_967_296.0;
        let word = words.get(index % 16).copied().unwrap_or_default();
        let shift = SHIFTS.get(round).and_then(|shifts| shifts.get(step % 4)).copied();
        let sum = a.wrapping_add(mixed).wrapping_add(sine as u32).wrapping_add(word);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(shift.unwrap_or_default()));
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(new);
    }
}

/// A digest in 22 characters, six bits each, those of the first byte's low end first.
pub(super) fn text(digest: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let byte = |index: usize| u32::from(digest.get(index).copied().unwrap_or_default());
    let letter = |bit: usize| {
        let bits = (byte(bit / 8) | byte(bit / 8 + 1) << 8) >> (bit % 8);
        LETTERS.get(bits as usize & 63).map_or('?', |&letter| char::from(letter))
    };
    (0..8 * LEN).step_by(6).map(letter).collect()
}

/// A digest in hexadecimal.
pub(super) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, A.5.
    #[test]
    fn digests_are_those_of_the_rfc() {
        let digits = "1234567890".repeat(8);
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (&digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hexadecimal(&digest(text.as_bytes())), expected);
        }
    }

    #[test]
    fn text_takes_six_bits_a_letter() {
        assert_eq!(text(&[0; 16]), "a".repeat(22));
        assert_eq!(text(&[0xff; 16]), format!("{}d", "@".repeat(21)));
        let mut one = [0; 16];
        // Bits 6 to 11 are 000101: letter 5.
        (one[0], one[1]) = (0x40, 0x01);
        assert_eq!(text(&one), format!("af{}", "a".repeat(20)));
    }
}
