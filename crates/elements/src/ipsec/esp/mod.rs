//! The parts of an ESP packet (RFC 4303, 2).

pub(crate) mod association;
pub(crate) mod digest;
pub(crate) mod gcm;
pub(crate) mod replay;

/// Length of the index and the sequence number in bytes.
pub(super) const HEADER_LEN: usize = 8;
/// Length of the initialization vectors that these elements use.
pub(super) const IV_LEN: usize = 8;
/// Length of both.
pub(super) const FRONT_LEN: usize = HEADER_LEN + IV_LEN;

/// The bytes that precede the payload.
pub(super) fn front(spi: u32, sequence: u32, iv: [u8; IV_LEN]) -> [u8; FRONT_LEN] {
    let mut front = [0; FRONT_LEN];
    let (header, place) = front.split_at_mut(HEADER_LEN);
    let (first, second) = header.split_at_mut(4);
    first.copy_from_slice(&spi.to_be_bytes());
    second.copy_from_slice(&sequence.to_be_bytes());
    place.copy_from_slice(&iv);
    front
}

/// The index and the sequence number; `None` if the packet is too short for the bytes that precede the payload.
pub(super) fn index_and_sequence(packet: &[u8]) -> Option<(u32, u32)> {
    let [a, b, c, d, e, f, g, h, ..] = packet.first_chunk::<FRONT_LEN>()?;
    Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])))
}

/// The bytes that follow `len` bytes of payload: padding that counts up from 1, to a multiple of `unit` bytes,
/// the padding length, and the next header.
pub(super) fn trailer(len: usize, unit: usize, next_header: u8) -> Vec<u8> {
    // A unit is at most 16 bytes.
    let padding = ((unit - (len + 2) % unit) % unit) as u8;
    let mut trailer: Vec<u8> = (1..=padding).collect();
    trailer.extend([padding, next_header]);
    trailer
}

/// What is wrong with a trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadPadding {
    Length,
    Bytes,
}

/// Returns the length of the trailer at the end of a payload, and the next header.
///
/// # Errors
/// The padding is longer than the payload, or does not count up.
pub(super) fn trailer_of(payload: &[u8]) -> Result<(usize, u8), BadPadding> {
    let (rest, &[padding_len, next_header]) =
        payload.split_last_chunk::<2>().ok_or(BadPadding::Length)?;
    let start = rest.len().checked_sub(padding_len.into()).ok_or(BadPadding::Length)?;
    let padding = rest.get(start..).unwrap_or_default();
    if padding.last().is_some_and(|last| *last != padding_len) {
        return Err(BadPadding::Length);
    }
    if !padding.iter().copied().eq(1..=padding_len) {
        return Err(BadPadding::Bytes);
    }
    Ok((padding.len() + 2, next_header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_can_be_parsed() {
        for unit in [4, 8, 16] {
            for len in 0..40 {
                let mut payload = vec![0xff; len];
                payload.extend(trailer(len, unit, 17));
                assert_eq!(payload.len() % unit, 0);
                assert_eq!(trailer_of(&payload), Ok((payload.len() - len, 17)));
            }
        }
        assert_eq!(trailer_of(&[1, 2, 3, 3, 4]), Ok((5, 4)));
        assert_eq!(trailer_of(&[2, 2, 3, 3, 4]), Err(BadPadding::Bytes));
        assert_eq!(trailer_of(&[1, 2, 4, 3, 4]), Err(BadPadding::Length));
        assert_eq!(trailer_of(&[1, 2, 3, 4, 4]), Err(BadPadding::Length));
        assert_eq!(trailer_of(&[1]), Err(BadPadding::Length));
    }
}
