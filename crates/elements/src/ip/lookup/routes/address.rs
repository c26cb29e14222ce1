//! The address families that routing tables support: IPv4 and IPv6.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, BitOr, Not};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::{Arg, ArgText, Ipv4Network, Ipv6Network, Scope};
use millrace_core::memory::ANNOTATION_LEN;
use millrace_core::memory::annotations::DST_IP;
use zerocopy::FromZeros;

use super::route::{Hop, NotAPrefix, Prefix};

/// A packet's annotations.
pub(crate) type Annotations = [u8; ANNOTATION_LEN];

/// An address of one family, and everything that depends on the family.
pub trait Address:
    Arg + Copy + Ord + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// An address as a number whose highest bit is the address's first.
    type Bits: Copy
        + Ord
        + Hash
        + Default
        + fmt::Debug
        + BitAnd<Output = Self::Bits>
        + BitOr<Output = Self::Bits>
        + Not<Output = Self::Bits>
        + Send
        + Sync
        + 'static;

    /// A network as a key of the prefix tree.
    type Key: prefix_trie::Prefix + Send + Sync + 'static;

    /// A hop as readers load it; all zeros mean no hop.
    type Cell: FromZeros + fmt::Debug + Send + Sync + 'static;

    /// The number of bits of an address.
    const LENGTH: u8;

    /// The address that stands for "none".
    const UNSPECIFIED: Self;

    /// The name of the address type in messages.
    const NAME: &'static str;

    /// The address as a number.
    fn to_bits(self) -> Self::Bits;

    /// The address of a number.
    fn from_bits(bits: Self::Bits) -> Self;

    /// A number of `length` one bits, followed by zeros.
    fn mask(length: u8) -> Self::Bits;

    /// The key of a network.
    fn key(prefix: Prefix<Self>) -> Self::Key;

    /// The network of a key.
    fn prefix(key: &Self::Key) -> Prefix<Self>;

    /// Parses a network, or a single address. `None` for malformed text.
    fn network(text: &ArgText, scope: &Scope<'_>) -> Option<Result<Prefix<Self>, NotAPrefix>>;

    /// Stores a hop, before readers learn its place.
    fn store(cell: &Self::Cell, hop: Hop<Self>);

    /// Loads a hop.
    fn load(cell: &Self::Cell) -> Option<Hop<Self>>;

    /// A packet's next destination, from its annotations.
    fn destination(annotations: &Annotations) -> Self;

    /// Sets a packet's next destination.
    fn set_destination(self, annotations: &mut Annotations);
}

/// The bit of a cell with a hop. An element has fewer outputs.
const IS_HOP: u64 = 1 << 63;

impl Address for Ipv4Addr {
    type Bits = u32;
    type Key = (u32, u8);
    /// A bit that marks a hop, and the output in the upper half, the gateway in the lower.
    type Cell = AtomicU64;

    const LENGTH: u8 = 32;
    const UNSPECIFIED: Self = Ipv4Addr::UNSPECIFIED;
    const NAME: &'static str = "IP address";

    #[inline(always)]
    fn to_bits(self) -> u32 {
        Ipv4Addr::to_bits(self)
    }

    #[inline]
    fn from_bits(bits: u32) -> Self {
        Ipv4Addr::from_bits(bits)
    }

    fn mask(length: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
    }

    fn key(prefix: Prefix<Self>) -> (u32, u8) {
        (prefix.first(), prefix.length())
    }

    fn prefix(&(bits, length): &(u32, u8)) -> Prefix<Self> {
        Prefix::around(bits, length)
    }

    fn network(text: &ArgText, scope: &Scope<'_>) -> Option<Result<Prefix, NotAPrefix>> {
        let Ipv4Network(network) = Ipv4Network::parse(text, scope).ok()?;
        Some(network.try_into())
    }

    fn store(cell: &AtomicU64, hop: Hop) {
        let port = u64::from(hop.port) << 32;
        // In the order in which packets have it.
        let gateway = u32::from_ne_bytes(hop.gateway.octets());
        cell.store(IS_HOP | port | u64::from(gateway), Relaxed);
    }

    #[inline(always)]
    fn load(cell: &AtomicU64) -> Option<Hop> {
        let entry = cell.load(Relaxed);
        let port = ((entry & !IS_HOP) >> 32) as u32;
        let gateway = Ipv4Addr::from((entry as u32).to_ne_bytes());
        (entry & IS_HOP != 0).then_some(Hop { gateway, port })
    }

    #[inline(always)]
    fn destination(annotations: &Annotations) -> Self {
        annotations
            .get(DST_IP..)
            .and_then(<[u8]>::first_chunk)
            .map_or(Self::UNSPECIFIED, |&octets: &[u8; 4]| octets.into())
    }

    #[inline(always)]
    fn set_destination(self, annotations: &mut Annotations) {
        if let Some(place) = annotations.get_mut(DST_IP..).and_then(<[u8]>::first_chunk_mut) {
            *place = self.octets();
        }
    }
}

impl Address for Ipv6Addr {
    type Bits = u128;
    type Key = (u128, u8);
    /// The output plus one, then the halves of the gateway; the fourth word keeps a cell within a cache
    /// line.
    type Cell = [AtomicU64; 4];

    const LENGTH: u8 = 128;
    const UNSPECIFIED: Self = Ipv6Addr::UNSPECIFIED;
    const NAME: &'static str = "IPv6 address";

    #[inline(always)]
    fn to_bits(self) -> u128 {
        Ipv6Addr::to_bits(self)
    }

    #[inline]
    fn from_bits(bits: u128) -> Self {
        Ipv6Addr::from_bits(bits)
    }

    fn mask(length: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)
    }

    fn key(prefix: Prefix<Self>) -> (u128, u8) {
        (prefix.first(), prefix.length())
    }

    fn prefix(&(bits, length): &(u128, u8)) -> Prefix<Self> {
        Prefix::around(bits, length)
    }

    fn network(text: &ArgText, scope: &Scope<'_>) -> Option<Result<Prefix<Self>, NotAPrefix>> {
        let Ipv6Network(network) = Ipv6Network::parse(text, scope).ok()?;
        Some(Ok(Prefix::around(network.address().to_bits(), network.length())))
    }

    fn store([port, upper, lower, _]: &[AtomicU64; 4], hop: Hop<Self>) {
        let gateway = hop.gateway.to_bits();
        upper.store((gateway >> 64) as u64, Relaxed);
        lower.store(gateway as u64, Relaxed);
        port.store(u64::from(hop.port) + 1, Relaxed);
    }

    #[inline(always)]
    fn load([port, upper, lower, _]: &[AtomicU64; 4]) -> Option<Hop<Self>> {
        let port = port.load(Relaxed).checked_sub(1)? as u32;
        let gateway = u128::from(upper.load(Relaxed)) << 64 | u128::from(lower.load(Relaxed));
        Some(Hop { gateway: Ipv6Addr::from_bits(gateway), port })
    }

    #[inline(always)]
    fn destination(annotations: &Annotations) -> Self {
        annotations
            .get(DST_IP..)
            .and_then(<[u8]>::first_chunk)
            .map_or(Self::UNSPECIFIED, |&octets: &[u8; 16]| octets.into())
    }

    #[inline(always)]
    fn set_destination(self, annotations: &mut Annotations) {
        if let Some(place) = annotations.get_mut(DST_IP..).and_then(<[u8]>::first_chunk_mut) {
            *place = self.octets();
        }
    }
}
