//! The one key of all flow tables.
//!
//! A [`FlowId`] identifies the two ends of an IPv4 flow, compactly enough for a rewriter's record. A [`Key`] is a
//! FlowId in a space of its own: a protocol, a map of a rewriter, or the flows that an upstream manager has numbered. A
//! [`WideKey`] has room for IPv6 addresses.
//!
//! Some structures look like flow keys but are not, and stay where they are. IPReassembler's includes the
//! identification of a packet. IPFilter remembers the fragment fields of the last packet, because its rules test them.
//! The hash that spreads packets over threads covers the innermost addresses of any kind, Ethernet included, and no
//! table holds them. The classifiers' keys have the fields that rules test.
//!
//! Ports are read by [`Ipv4Header::transport`], with four exceptions. The rewriters read a header without options with
//! a few loads, which is most of what a known flow costs. IPFilter reads 15 bytes from the header annotations for the
//! same reason. The keys of rules are read by a crate without packets, into the words that GPUs compare. Summaries
//! read headers that were captured in part.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::View;
use millrace_core::headers::dissect::{Kind, Start, flow_of};
use millrace_core::headers::{Header, Ipv4Header, protocol};

/// Source and destination: addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// The source address in the upper half, the destination address in the lower one.
    pub(crate) addresses: u64,
    /// The source port in the upper half, the destination port in the lower one.
    pub(crate) ports: u32,
}

impl FlowId {
    /// The flow from one address and port to another.
    pub fn new(source: (u32, u16), destination: (u32, u16)) -> Self {
        Self {
            addresses: u64::from(source.0) << 32 | u64::from(destination.0),
            ports: u32::from(source.1) << 16 | u32::from(destination.1),
        }
    }

    /// Two hosts, without ports.
    pub(crate) fn of_hosts(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        Self::new((source.to_bits(), 0), (destination.to_bits(), 0))
    }

    /// The flow or its replies, whichever has the lower source, and whether that is the replies. For a host that sends
    /// to itself, the one with the lower source port.
    pub(crate) fn ordered(self) -> (Self, bool) {
        let from = (self.source(), self.source_port());
        let turns = from > (self.destination(), self.destination_port());
        (if turns { self.reversed() } else { self }, turns)
    }

    /// The source address.
    pub fn source(self) -> u32 {
        (self.addresses >> 32) as u32
    }

    /// The destination address.
    pub fn destination(self) -> u32 {
        self.addresses as u32
    }

    /// The source port.
    pub fn source_port(self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// The destination port.
    pub fn destination_port(self) -> u16 {
        self.ports as u16
    }

    /// This flow from another address.
    #[must_use]
    pub fn with_source(self, source: u32) -> Self {
        Self { addresses: u64::from(source) << 32 | u64::from(self.destination()), ..self }
    }

    /// This flow to another address.
    #[must_use]
    pub fn with_destination(self, destination: u32) -> Self {
        Self { addresses: u64::from(self.source()) << 32 | u64::from(destination), ..self }
    }

    /// This flow from another port.
    #[must_use]
    pub fn with_source_port(self, port: u16) -> Self {
        Self { ports: u32::from(port) << 16 | self.ports & 0xffff, ..self }
    }

    /// This flow to another port.
    #[must_use]
    pub fn with_destination_port(self, port: u16) -> Self {
        Self { ports: self.ports & 0xffff_0000 | u32::from(port), ..self }
    }

    /// The flow of the replies: source and destination are swapped.
    #[inline(always)]
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { addresses: self.addresses.rotate_left(32), ports: self.ports.rotate_left(16) }
    }

    /// The hash that orders Click's tables, and so the lines of their dumps.
    pub(crate) fn click_hash(self) -> u32 {
        let (source, destination) = (self.source().swap_bytes(), self.destination().swap_bytes());
        let (from, to) = (u32::from(self.source_port()), u32::from(self.destination_port()));
        source.rotate_left(from % 16 + 1)
            ^ destination.rotate_left(31 - to % 16)
            ^ (to << 16 | from)
    }
}

/// Click's notation for a flow: `(1.0.0.1, 20, 2.0.0.2, 30)`.
impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) =
            (Ipv4Addr::from(self.source()), Ipv4Addr::from(self.destination()));
        write!(f, "({source}, {}, {destination}, {})", self.source_port(), self.destination_port())
    }
}

/// A flow in one of a table's spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) flow: FlowId,
    /// A protocol, one of the spaces below, or a map of the table.
    pub(crate) space: u32,
}

/// The flows that an upstream manager has numbered; the space of other flows is their protocol.
const NUMBERED: u32 = 1 << 8;
/// All packets without an IP header and without a number.
const OTHERS: u32 = NUMBERED + 1;

impl Key {
    /// The flow of a packet with an IP header: addresses, protocol and ports. Ports are 0 for protocols without ports
    /// and for later fragments.
    pub(crate) fn five_tuple(packet: &View) -> Option<Self> {
        let bytes = packet.network_data()?;
        let (ip, _) = Ipv4Header::view(bytes)?;
        Some(Self::of_header(ip, bytes))
    }

    /// The flow of an IP header and what follows it, in `bytes` from the header on.
    pub(crate) fn of_header(ip: &Ipv4Header, bytes: &[u8]) -> Self {
        let protocol = ip.protocol;
        let ports = ip.transport(bytes).filter(|_| protocol::has_ports(protocol));
        let ports =
            ports.and_then(<[u8]>::first_chunk).map_or(0, |ports| u32::from_be_bytes(*ports));
        let flow = FlowId { ports, ..FlowId::of_hosts(ip.source(), ip.destination()) };
        Self { flow, space: protocol.into() }
    }

    /// The flow of a packet: by the number that an upstream manager gave it, or else by the packet's headers.
    pub(crate) fn of(packet: &View) -> Self {
        match packet.aggregate() {
            0 => {
                let others = Self { flow: FlowId::default(), space: OTHERS };
                Self::five_tuple(packet).unwrap_or(others)
            }
            number => Self::numbered(number),
        }
    }

    /// The flow with a number.
    pub(crate) fn numbered(number: u32) -> Self {
        Self { flow: FlowId { addresses: number.into(), ports: 0 }, space: NUMBERED }
    }
}

/// A flow between addresses of either version, in one of a table's spaces. Where the versions share a space, IPv4 addresses
/// are mapped to IPv6 (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WideKey {
    pub(crate) source: u128,
    pub(crate) destination: u128,
    /// The source port in the upper half, the destination port in the lower one.
    pub(crate) ports: u32,
    /// Of [`Key`]'s spaces, or 0 in tables of a single protocol.
    pub(crate) space: u32,
}

/// A key for the records of a table.
pub(crate) trait TableKey: Copy + Eq + Send + Sync + 'static {
    /// The key's form in a record that other threads may read at the same time.
    type Stored: Default + Send + Sync;

    /// Hashes all of the key into one number, which is unpredictable without the seed.
    fn mix(self, seed: u64) -> u64;

    fn store(self, stored: &Self::Stored);

    fn load(stored: &Self::Stored) -> Self;
}

impl TableKey for Key {
    type Stored = [AtomicU64; 2];

    #[inline(always)]
    fn mix(self, seed: u64) -> u64 {
        fold(self.flow.addresses ^ seed, self.ports_and_space() ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn store(self, [addresses, rest]: &Self::Stored) {
        addresses.store(self.flow.addresses, Relaxed);
        rest.store(self.ports_and_space(), Relaxed);
    }

    #[inline(always)]
    fn load([addresses, rest]: &Self::Stored) -> Self {
        let rest = rest.load(Relaxed);
        let flow = FlowId { addresses: addresses.load(Relaxed), ports: (rest >> 32) as u32 };
        Self { flow, space: rest as u32 }
    }
}

impl Key {
    #[inline(always)]
    fn ports_and_space(self) -> u64 {
        u64::from(self.flow.ports) << 32 | u64::from(self.space)
    }
}

impl TableKey for WideKey {
    type Stored = [AtomicU64; 5];

    fn mix(self, seed: u64) -> u64 {
        let mixed =
            fold(self.source as u64 ^ seed, (self.source >> 64) as u64 ^ seed.rotate_left(32));
        let to = (self.destination >> 64) as u64 ^ 0x9e37_79b9_7f4a_7c15;
        let mixed = fold(mixed ^ self.destination as u64, to);
        fold(mixed ^ seed, self.ports_and_space() ^ 0xa076_1d64_78bd_642f)
    }

    fn store(self, stored: &Self::Stored) {
        for (place, word) in stored.iter().zip(self.words()) {
            place.store(word, Relaxed);
        }
    }

    fn load(stored: &Self::Stored) -> Self {
        let [s0, s1, d0, d1, rest] = stored.each_ref().map(|word| word.load(Relaxed));
        let wide = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        let (source, destination) = (wide(s0, s1), wide(d0, d1));
        Self { source, destination, ports: (rest >> 32) as u32, space: rest as u32 }
    }
}

impl WideKey {
    /// The outermost flow of an IP packet, or of a frame with one. Versions of IP have spaces of their own.
    pub(crate) fn of_bytes(bytes: &[u8], start: Start) -> Option<Self> {
        let flow = flow_of(bytes, start, true).filter(|flow| flow.kind != Kind::Ether)?;
        let ports = flow.ports.unwrap_or_default();
        Some(Self {
            source: flow.source,
            destination: flow.destination,
            ports: u32::from(ports.0) << 16 | u32::from(ports.1),
            space: u32::from(flow.kind == Kind::V4) << 16 | u32::from(flow.protocol),
        })
    }

    /// The protocol, in tables whose spaces are protocols.
    pub(crate) fn protocol(self) -> u8 {
        self.space as u8
    }

    /// The flow or its replies, whichever has the lower source and, from a host to itself, the lower source port; and
    /// whether that is the replies.
    pub(crate) fn ordered(self) -> (Self, bool) {
        let turns = (self.source, self.ports >> 16) > (self.destination, self.ports & 0xffff);
        let replies = Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.rotate_left(16),
            ..self
        };
        (if turns { replies } else { self }, turns)
    }

    fn words(self) -> [u64; 5] {
        let Self { source, destination, .. } = self;
        let high = |address: u128| (address >> 64) as u64;
        let rest = self.ports_and_space();
        [source as u64, high(source), destination as u64, high(destination), rest]
    }

    fn ports_and_space(self) -> u64 {
        u64::from(self.ports) << 32 | u64::from(self.space)
    }
}

/// Multiplies, and combines both halves of the product with XOR.
#[inline(always)]
pub(super) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_and_its_replies_have_one_order() {
        let flow = FlowId::new((0x0100_0001, 20), (0x0200_0002, 30));
        assert_eq!(flow.to_string(), "(1.0.0.1, 20, 2.0.0.2, 30)");
        assert_eq!(flow.reversed().to_string(), "(2.0.0.2, 30, 1.0.0.1, 20)");
        assert_eq!(flow.reversed().reversed(), flow);
        let other = flow.with_source(3).with_destination(4).with_source_port(5);
        assert_eq!(flow.ordered(), (flow, false));
        assert_eq!(flow.reversed().ordered(), (flow, true));
        assert_eq!(other.with_destination_port(6), FlowId::new((3, 5), (4, 6)));
    }

    #[test]
    fn keys_are_loaded_as_they_were_stored() {
        let key = Key { flow: FlowId { addresses: u64::MAX - 5, ports: 0x8000_0001 }, space: 7 };
        let stored = Default::default();
        key.store(&stored);
        assert_eq!(Key::load(&stored), key);
        let wide = WideKey {
            source: u128::MAX - 3,
            destination: 1 << 77 | 5,
            ports: 0xfffe_0001,
            space: 58,
        };
        let stored = Default::default();
        wide.store(&stored);
        assert_eq!(WideKey::load(&stored), wide);
        // A change of any word changes the hash.
        let others = [1, 1 << 64].map(|bit| WideKey { source: wide.source ^ bit, ..wide });
        let to = [1, 1 << 64].map(|bit| WideKey { destination: wide.destination ^ bit, ..wide });
        let rest = [WideKey { ports: 0, ..wide }, WideKey { space: 6, ..wide }];
        for other in others.into_iter().chain(to).chain(rest) {
            assert_ne!(other.mix(99), wide.mix(99));
        }
    }
}
