//! Prefixes and routes of either family, and their text form.

use std::fmt;
use std::net::Ipv4Addr;

use millrace_core::Capability;
use millrace_core::net::Ipv4Prefix;

use super::address::Address;

/// A network, by default of IPv4: the first `length` bits of an address; the other bits are zero.
///
/// Networks are ordered as in a walk through the prefix tree: by address, a network before those within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix<A: Address = Ipv4Addr> {
    bits: A::Bits,
    length: u8,
}

/// The mask of a network has one bits after a zero, which these routing tables do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mask {0} is not that of a prefix")]
pub struct NotAPrefix(pub Ipv4Addr);

impl Prefix {
    /// `0.0.0.0/0`, which contains every address.
    pub const DEFAULT: Prefix = Prefix { bits: 0, length: 0 };

    /// The network of `length` bits that contains an address; lengths over 32 count as 32.
    #[must_use]
    pub fn new(address: u32, length: u8) -> Prefix {
        Prefix::around(address, length)
    }
}

impl Prefix {
    /// The bucket of the hash table in which Click's DirectIPLookup keeps the route. It determines the order of Click's
    /// `table` handler.
    pub(crate) fn click_hash(self) -> u32 {
        const TABLE: u32 = 1 << 16;
        let (prefix, length) = (self.bits, u32::from(self.length));
        let mut hash = prefix ^ (length << 5) ^ (prefix >> (length >> 2)).wrapping_sub(length);
        hash ^= (hash >> 23) ^ (hash >> 15).wrapping_mul(length) ^ (prefix >> 17).wrapping_mul(53);
        // A shift by 32 acts as a shift by 0, as on the machines where Click runs.
        let rest = hash.wrapping_shr(length).wrapping_mul(7) ^ (hash >> 11).wrapping_mul(103);
        hash = hash.wrapping_sub((prefix >> 3) ^ rest);
        (hash ^ (hash >> 17)) & (TABLE - 1)
    }
}

impl<A: Address> Prefix<A> {
    /// The network of `length` bits that contains an address of either family; lengths over that of an address count as
    /// that length.
    #[must_use]
    pub fn around(address: A::Bits, length: u8) -> Prefix<A> {
        let length = length.min(A::LENGTH);
        Prefix { bits: address & A::mask(length), length }
    }

    /// The first address.
    #[must_use]
    pub fn first(self) -> A::Bits {
        self.bits
    }

    /// The last address.
    #[must_use]
    pub fn last(self) -> A::Bits {
        self.bits | !A::mask(self.length)
    }

    /// The number of bits that its addresses share.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// The mask of the bits that its addresses share.
    #[must_use]
    pub fn mask(self) -> A::Bits {
        A::mask(self.length)
    }

    /// Whether the address lies in this network.
    #[must_use]
    pub fn contains(self, address: A::Bits) -> bool {
        address & self.mask() == self.bits
    }

    /// The network of one bit less that contains this one; `None` for the default network.
    #[must_use]
    pub fn parent(self) -> Option<Prefix<A>> {
        Some(Prefix::around(self.bits, self.length.checked_sub(1)?))
    }
}

/// Host bits of the address are ignored.
impl TryFrom<Ipv4Prefix> for Prefix {
    type Error = NotAPrefix;

    fn try_from(prefix: Ipv4Prefix) -> Result<Prefix, NotAPrefix> {
        let length = prefix.length().ok_or(NotAPrefix(prefix.mask()))?;
        Ok(Prefix::new(prefix.address().to_bits(), length))
    }
}

/// `10.0.0.0/8`.
impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", A::from_bits(self.bits), self.length)
    }
}

/// The largest output number. It must fit in half of an entry, next to a bit; one more than it, too.
pub(crate) const MAX_PORT: u32 = u32::MAX >> 1;

/// Where packets go next: through an output, to a gateway or directly to their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop<A: Address = Ipv4Addr> {
    /// The next router; [unspecified](Address::UNSPECIFIED) for none.
    pub gateway: A,
    /// The output, counted from 0.
    pub port: u32,
}

/// In Click's format, with `-` for a missing gateway: `10.0.0.1 2`.
impl<A: Address> fmt::Display for Hop<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gateway_text(), self.port)
    }
}

impl<A: Address> Hop<A> {
    /// Whether packets go to a gateway.
    #[inline]
    pub fn has_gateway(&self) -> bool {
        self.gateway != A::UNSPECIFIED
    }

    fn gateway_text(&self) -> String {
        if self.has_gateway() { self.gateway.to_string() } else { "-".to_owned() }
    }
}

/// Routes that other elements may look up.
pub trait RouteLookup<A: Address = Ipv4Addr>: Send + Sync {
    /// The hop of the route with the longest prefix that contains an address.
    fn hop(&self, address: A) -> Option<Hop<A>>;
}

impl<A: Address> Capability for dyn RouteLookup<A> {
    const NAME: &'static str = "a routing table";

    fn missing(element: &str) -> String {
        format!("‘{element}’ is not an element with IP routes")
    }
}

/// A route: packets to a network go to a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route<A: Address = Ipv4Addr> {
    /// The network.
    pub prefix: Prefix<A>,
    /// The hop.
    pub hop: Hop<A>,
}

/// In the format of Click's messages: `10.0.0.0/8 10.0.0.1 2`.
impl<A: Address> fmt::Display for Route<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.prefix, self.hop)
    }
}

impl<A: Address> Route<A> {
    /// Appends the route as a line of Click's `table` handler, with columns aligned by tabs.
    pub fn write_row(&self, rows: &mut String) {
        column(rows, &self.prefix.to_string(), 16);
        column(rows, &self.hop.gateway_text(), 8);
        rows.push_str(&self.hop.port.to_string());
        rows.push('\n');
    }
}

/// Appends a text and a tab, and another tab when the text has fewer than `width` characters.
fn column(rows: &mut String, text: &str, width: usize) {
    rows.push_str(text);
    rows.push_str(if text.len() < width { "\t\t" } else { "\t" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_mask_and_contain_addresses() {
        let prefix = Prefix::new(0x0a01_02ff, 24);
        assert_eq!(prefix.to_string(), "10.1.2.0/24");
        assert_eq!((prefix.first(), prefix.last()), (0x0a01_0200, 0x0a01_02ff));
        assert!(prefix.contains(0x0a01_0280) && !prefix.contains(0x0a01_0300));
        assert_eq!(prefix.parent(), Some(Prefix::new(0x0a01_0200, 23)));
        assert_eq!(Prefix::DEFAULT.parent(), None);
        assert!(Prefix::DEFAULT.contains(u32::MAX));
        assert_eq!(Prefix::new(7, 32).last(), 7);
    }

    #[test]
    fn masks_with_holes_are_not_prefixes() {
        let holes = Ipv4Prefix::with_mask(Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(255, 0, 255, 0));
        let error = Prefix::try_from(holes).unwrap_err();
        assert_eq!(error.to_string(), "mask 255.0.255.0 is not that of a prefix");
    }

    #[test]
    fn routes_print_as_click_prints_them() {
        let route = |prefix, gateway: [u8; 4], port| Route {
            prefix,
            hop: Hop { gateway: gateway.into(), port },
        };
        let short = route(Prefix::new(0x0a00_0000, 8), [0; 4], 3);
        let long = route(Prefix::new(0xc0a8_6480, 25), [192, 168, 100, 1], 0);
        assert_eq!(short.to_string(), "10.0.0.0/8 - 3");
        assert_eq!(long.to_string(), "192.168.100.128/25 192.168.100.1 0");
        let mut rows = String::new();
        short.write_row(&mut rows);
        long.write_row(&mut rows);
        assert_eq!(rows, "10.0.0.0/8\t\t-\t\t3\n192.168.100.128/25\t192.168.100.1\t0\n");
    }
}
