//! Network addresses: Ethernet addresses, IPv4 and IPv6 prefixes.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The text is not an address of the required kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {0}")]
pub struct AddressError(pub(crate) &'static str);

/// An Ethernet (IEEE 802 MAC-48) address, in the order of transmission.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct EtherAddress(pub [u8; 6]);

impl EtherAddress {
    /// `FF-FF-FF-FF-FF-FF`, the address of every station.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// True for the all-zero address, which no station has.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }

    /// True for group (multicast) addresses, including the broadcast address.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// True for addresses assigned by an administrator, not by the maker of the card.
    pub fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// The Ethernet group address for the IPv4 multicast group `group` (RFC 1112, 6.4).
    pub fn of_ipv4_group(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The six bytes.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl From<[u8; 6]> for EtherAddress {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

/// In Click's format: upper-case digits, joined with `-`.
impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

/// Six groups of one or two hexadecimal digits, all joined with `:` or all with `-`.
impl FromStr for EtherAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        const ERROR: AddressError = AddressError("an Ethernet address");
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut groups = text.split(separator);
        for byte in &mut bytes {
            let group = groups.next().ok_or(ERROR)?;
            if group.len() > 2 || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ERROR);
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| ERROR)?;
        }
        if groups.next().is_some() { Err(ERROR) } else { Ok(Self(bytes)) }
    }
}

/// An IPv4 address with a network mask, as written: bits of the address outside the mask are kept, because
/// `10.0.0.1/24` names both a host and its network.
///
/// Masks need not be prefixes: Click also allows `10.0.0.1/255.0.255.0`. See [`length`](Self::length).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Prefix {
    address: Ipv4Addr,
    mask: Ipv4Addr,
}

/// `0.0.0.0/0`.
impl Default for Ipv4Prefix {
    fn default() -> Self {
        Self { address: Ipv4Addr::UNSPECIFIED, mask: Ipv4Addr::UNSPECIFIED }
    }
}

impl Ipv4Prefix {
    /// The prefix of `length` bits of an address, `None` for lengths over 32.
    pub fn new(address: Ipv4Addr, length: u8) -> Option<Self> {
        Some(Self { address, mask: Self::mask_of(length)? })
    }

    /// An address with any mask.
    pub fn with_mask(address: Ipv4Addr, mask: Ipv4Addr) -> Self {
        Self { address, mask }
    }

    /// The mask of `length` leading ones, `None` for lengths over 32.
    pub fn mask_of(length: u8) -> Option<Ipv4Addr> {
        let zeros = 32u32.checked_sub(length.into())?;
        Some(Ipv4Addr::from_bits(u32::MAX.checked_shl(zeros).unwrap_or(0)))
    }

    /// The address as written, host bits included.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// The mask.
    pub fn mask(self) -> Ipv4Addr {
        self.mask
    }

    /// The address with the bits outside of the mask cleared.
    pub fn network(self) -> Ipv4Addr {
        self.address & self.mask
    }

    /// The address with the bits outside of the mask set.
    pub fn broadcast(self) -> Ipv4Addr {
        self.address | !self.mask
    }

    /// This prefix with the host bits of its address cleared.
    #[must_use]
    pub fn truncated(self) -> Self {
        Self { address: self.network(), ..self }
    }

    /// The number of leading ones of the mask, `None` when ones follow a zero.
    pub fn length(self) -> Option<u8> {
        let mask = self.mask.to_bits();
        let ones = mask.leading_ones();
        (mask.count_ones() == ones).then_some(ones as u8)
    }

    /// True when the address is in this network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address & self.mask == self.network()
    }

    /// True when every address of `other` is in this network.
    pub fn covers(self, other: Self) -> bool {
        other.mask & self.mask == self.mask && self.contains(other.address)
    }
}

/// `10.0.0.1/24`; `10.0.0.1/255.0.255.0` for a mask that is not a prefix.
impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Some(length) => write!(f, "{}/{length}", self.address),
            None => write!(f, "{}/{}", self.address, self.mask),
        }
    }
}

/// `ADDRESS/LENGTH` or `ADDRESS/MASK`; trailing bytes of the address that the mask does not cover are
/// optional (`10/8`).
impl FromStr for Ipv4Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        const ERROR: AddressError = AddressError("an IPv4 prefix");
        let (address, mask) = text.rsplit_once('/').ok_or(ERROR)?;
        let (address, bytes) = partial_ipv4(address).ok_or(ERROR)?;
        let prefix = Self { address, mask: parse_mask(mask).ok_or(ERROR)? };
        prefix.given_by(bytes).ok_or(ERROR)
    }
}

impl Ipv4Prefix {
    /// This prefix, unless its mask extends past the `bytes` given bytes of its address.
    pub(crate) fn given_by(self, bytes: u8) -> Option<Self> {
        let given = Self::mask_of(bytes.saturating_mul(8))?;
        (self.mask & given == self.mask).then_some(self)
    }
}

/// Reads one to four decimal bytes with dots between; the rest of the address is zero.
pub(crate) fn partial_ipv4(text: &str) -> Option<(Ipv4Addr, u8)> {
    let mut octets = [0u8; 4];
    let mut given = 0;
    let mut places = octets.iter_mut();
    for part in text.split('.') {
        *places.next()? = decimal(part)?;
        given += 1;
    }
    Some((Ipv4Addr::from(octets), given))
}

/// Reads a dotted quad; unlike the standard library, leading zeros are allowed (and decimal).
pub(crate) fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    match partial_ipv4(text)? {
        (address, 4) => Some(address),
        _ => None,
    }
}

/// Reads the part of an IPv4 prefix after the slash: a length or a mask.
pub(crate) fn parse_mask(text: &str) -> Option<Ipv4Addr> {
    match decimal(text) {
        Some(length) => Ipv4Prefix::mask_of(length),
        None => parse_ipv4(text),
    }
}

/// A number of decimal digits and nothing else, at most 255.
fn decimal(text: &str) -> Option<u8> {
    if text.is_empty() || text.len() > 3 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// An IPv6 address with a prefix length, as written: host bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv6Prefix {
    address: Ipv6Addr,
    length: u8,
}

/// `::/0`.
impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self { address: Ipv6Addr::UNSPECIFIED, length: 0 }
    }
}

impl Ipv6Prefix {
    /// The prefix of `length` bits of an address, `None` for lengths over 128.
    pub fn new(address: Ipv6Addr, length: u8) -> Option<Self> {
        (length <= 128).then_some(Self { address, length })
    }

    /// The address as written, host bits included.
    pub fn address(self) -> Ipv6Addr {
        self.address
    }

    /// The number of bits of the prefix, 0 to 128.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The mask of as many leading ones as the prefix has bits.
    pub fn mask(self) -> Ipv6Addr {
        let zeros = 128 - u32::from(self.length);
        Ipv6Addr::from_bits(u128::MAX.checked_shl(zeros).unwrap_or(0))
    }

    /// The address with the bits outside of the prefix cleared.
    pub fn network(self) -> Ipv6Addr {
        self.address & self.mask()
    }

    /// This prefix with the host bits of its address cleared.
    #[must_use]
    pub fn truncated(self) -> Self {
        Self { address: self.network(), ..self }
    }

    /// True when the address is in this network.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address & self.mask() == self.network()
    }

    /// True when every address of `other` is in this network.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

/// `2001:db8::1/64`.
impl fmt::Display for Ipv6Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// `ADDRESS/LENGTH` or `ADDRESS/MASK`, the mask in the notation of addresses.
impl FromStr for Ipv6Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        const ERROR: AddressError = AddressError("an IPv6 prefix");
        let (address, length) = text.rsplit_once('/').ok_or(ERROR)?;
        let address = address.parse().map_err(|_| ERROR)?;
        let length = parse_length6(length).ok_or(ERROR)?;
        Self::new(address, length).ok_or(ERROR)
    }
}

/// Reads the part of an IPv6 prefix after the slash: a length or a mask.
pub(crate) fn parse_length6(text: &str) -> Option<u8> {
    if let Some(length) = decimal(text) {
        return (length <= 128).then_some(length);
    }
    mask_length(text.parse().ok()?)
}

/// The number of leading ones of a mask, `None` when ones follow a zero.
pub(crate) fn mask_length(mask: Ipv6Addr) -> Option<u8> {
    let mask = mask.to_bits();
    let ones = mask.leading_ones();
    (mask.count_ones() == ones).then_some(ones as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ethernet_addresses_know_their_kind() {
        for (text, group, broadcast, local, zero) in [
            ("0:0:0:0:0:0", false, false, false, true),
            ("0:50:ba:85:84:a9", false, false, false, false),
            ("1:0:5e:0:0:1", true, false, false, false),
            ("2:0:0:0:0:1", false, false, true, false),
            ("ff:ff:ff:ff:ff:ff", true, true, true, false),
        ] {
            let address: EtherAddress = text.parse().unwrap();
            assert_eq!(address.is_group(), group, "{text}");
            assert_eq!(address.is_broadcast(), broadcast, "{text}");
            assert_eq!(address.is_local(), local, "{text}");
            assert_eq!(address.is_zero(), zero, "{text}");
        }
        let group = EtherAddress::of_ipv4_group(Ipv4Addr::new(239, 255, 1, 2));
        assert_eq!(group.to_string(), "01-00-5E-7F-01-02");
    }

    #[test]
    fn prefixes_know_their_network() {
        let prefix: Ipv4Prefix = "10.1.2.3/20".parse().unwrap();
        assert_eq!(prefix.network(), Ipv4Addr::new(10, 1, 0, 0));
        assert_eq!(prefix.broadcast(), Ipv4Addr::new(10, 1, 15, 255));
        assert_eq!(prefix.truncated().to_string(), "10.1.0.0/20");
        assert_eq!(prefix.length(), Some(20));
        let odd: Ipv4Prefix = "10.1.2.3/255.0.0.255".parse().unwrap();
        assert_eq!((odd.length(), odd.to_string().as_str()), (None, "10.1.2.3/255.0.0.255"));
        let prefix: Ipv6Prefix = "2001:db8::1/32".parse().unwrap();
        assert_eq!(prefix.truncated().to_string(), "2001:db8::/32");
        assert_eq!(Ipv4Prefix::new(Ipv4Addr::UNSPECIFIED, 33), None);
        assert_eq!(Ipv6Prefix::new(Ipv6Addr::UNSPECIFIED, 129), None);
    }

    proptest! {
        #[test]
        fn membership_is_equality_of_leading_bits(a: u128, b: u128, same in 0..=128u32, length: u8) {
            // Two addresses that share their first bits.
            let b = if same == 0 { b } else { a ^ (b.checked_shr(same).unwrap_or(0)) };
            let (a4, b4) = ((a >> 96) as u32, (b >> 96) as u32);
            let length4 = length % 33;
            let prefix = Ipv4Prefix::new(Ipv4Addr::from_bits(a4), length4).unwrap();
            let shared = (a4 ^ b4).leading_zeros() >= u32::from(length4);
            prop_assert_eq!(prefix.contains(Ipv4Addr::from_bits(b4)), shared);
            prop_assert_eq!(prefix.length(), Some(length4));
            let length6 = length % 129;
            let prefix = Ipv6Prefix::new(Ipv6Addr::from_bits(a), length6).unwrap();
            let shared = (a ^ b).leading_zeros() >= u32::from(length6);
            prop_assert_eq!(prefix.contains(Ipv6Addr::from_bits(b)), shared);
            let other = Ipv6Prefix::new(Ipv6Addr::from_bits(b), (same % 129) as u8).unwrap();
            prop_assert_eq!(prefix.covers(other), shared && length6 <= other.length());
        }
    }
}
