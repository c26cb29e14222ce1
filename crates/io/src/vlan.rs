//! VLAN tags of frames.

/// Bytes of a tag.
pub(crate) const TAG: usize = 4;
/// Bytes in front of it: the two Ethernet addresses.
pub(crate) const ADDRESSES: usize = 12;

/// How much longer than others a frame may be for its tag.
#[inline]
pub(crate) fn tag_len(frame: &[u8]) -> usize {
    match frame.get(ADDRESSES..ADDRESSES + 2) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => TAG,
        _ => 0,
    }
}
