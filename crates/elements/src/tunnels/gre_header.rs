//! The GRE header (RFC 2784, RFC 2890).

/// A checksum and two zero bytes follow.
pub(super) const CHECKSUM: u16 = 0x8000;
/// A key follows.
pub(super) const KEY: u16 = 0x2000;
/// A sequence number follows.
pub(super) const SEQUENCE: u16 = 0x1000;
/// Bits that must be zero, including the version (RFC 2784, 2.3).
pub(super) const MUST_BE_ZERO: u16 = 0x4c07;

/// The length in bytes of a header with these flags.
pub(super) const fn len(flags: u16) -> usize {
    let optional = flags & (CHECKSUM | KEY | SEQUENCE);
    4 + 4 * optional.count_ones() as usize
}
