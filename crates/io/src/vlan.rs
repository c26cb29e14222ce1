//! VLAN tags of frames.

/// Bytes of a tag.
pub(crate) const TAG: usize = 4;
/// The bytes before it: the two Ethernet addresses.
pub(crate) const ADDRESSES: usize = 12;

/// How much longer a frame may be because of its tag, in bytes.
#[inline]
pub(crate) fn tag_len(frame: &[u8]) -> usize {
    match frame.get(ADDRESSES..ADDRESSES + 2) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => TAG,
        _ => 0,
    }
}
