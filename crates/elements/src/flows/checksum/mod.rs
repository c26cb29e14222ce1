//! Checksums of a packet whose addresses or ports change, updated by the difference.

use millrace_core::headers::protocol;

/// The checksum after the words that it covers changed by `delta`; a delta of 0 means no change (RFC 1624,
/// equation 3).
#[inline(always)]
pub(crate) fn updated(checksum: u16, delta: u16) -> u16 {
    if delta == 0 || delta == 0xffff {
        return checksum;
    }
    let sum = u32::from(!checksum) + u32::from(delta);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

#[inline(always)]
pub(crate) fn update(field: Option<&mut [u8; 2]>, delta: u16) {
    if let Some(field) = field {
        *field = updated(u16::from_be_bytes(*field), delta).to_be_bytes();
    }
}

/// Updates the transport checksum for new addresses and ports.
#[inline(always)]
pub(crate) fn update_transport(number: u8, transport: &mut [u8], delta: u16) {
    match number {
        protocol::TCP if transport.len() >= 18 => update(field(transport, 16), delta),
        protocol::UDP if transport.len() >= 8 => {
            if let Some(field) = field(transport, 6)
                // A datagram without a checksum stays without one.
                && *field != [0, 0]
            {
                let checksum = updated(u16::from_be_bytes(*field), delta);
                // 0 would mean that there is no checksum (RFC 768).
                *field = if checksum == 0 { 0xffff } else { checksum }.to_be_bytes();
            }
        }
        _ => {}
    }
}

#[inline(always)]
pub(crate) fn field<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}
