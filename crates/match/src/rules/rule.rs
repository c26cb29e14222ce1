//! Rules and sets of rules.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::BitAnd;

use super::key::{Key, LOWEST_TYPE};

/// A value and a mask: only the bits of the mask count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Masked<T> {
    value: T,
    mask: T,
}

impl<T: Copy + Default + PartialEq + BitAnd<Output = T>> Masked<T> {
    /// Matches values that are equal to `value` in the bits of `mask`.
    pub fn new(value: T, mask: T) -> Self {
        Self { value: value & mask, mask }
    }

    /// True if every value matches, so that the field is not examined.
    pub fn is_any(&self) -> bool {
        self.mask == T::default()
    }

    /// True if a value matches.
    pub fn holds(&self, value: T) -> bool {
        value & self.mask == self.value
    }

    /// The value, 0 outside of the mask.
    pub fn value(&self) -> T {
        self.value
    }

    /// The mask.
    pub fn mask(&self) -> T {
        self.mask
    }
}

impl Masked<u32> {
    /// A prefix of `len` bits, 0 to 32. The other bits of `address` are ignored.
    pub fn prefix(address: u32, len: u8) -> Self {
        let mask = u32::MAX.checked_shl(32_u32.saturating_sub(len.into())).unwrap_or(0);
        Self::new(address, mask)
    }

    /// The length of the prefix, if it is one.
    pub fn prefix_len(&self) -> Option<u8> {
        let ones = self.mask.leading_ones();
        (ones == self.mask.count_ones()).then_some(ones as u8)
    }
}

/// Ports from the first to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// All ports: the field is not examined.
    pub const ANY: Self = Self { first: 0, last: u16::MAX };

    /// The ports from `first` to `last`; `None` if `first` is greater.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// True if every port matches, so that the field is not examined.
    pub fn is_any(&self) -> bool {
        *self == Self::ANY
    }

    /// True if a port matches.
    pub fn holds(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// The first port.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The last port.
    pub fn last(&self) -> u16 {
        self.last
    }
}

impl Default for Ports {
    fn default() -> Self {
        Self::ANY
    }
}

/// The action for packets that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// They leave by this output.
    Output(u16),
    /// They are dropped.
    Drop,
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(output) => write!(out, "{output}"),
            Self::Drop => out.write_str("drop"),
        }
    }
}

/// Conditions on seven fields, all of which must hold, and an action.
///
/// A condition that accepts any value does not require the field. Any other condition holds only for packets that
/// have the field, as [`Key::of_frame`] defines it:
///
/// - EtherType: the innermost one. Frames whose type field is a length have none.
/// - IPv4 source, destination and protocol: packets with an IPv4 header, not IPv6 or ARP.
/// - Ports: whole datagrams and first fragments of TCP and UDP over IPv4 that contain the ports. Not later fragments,
///   other protocols, or packets that end before the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Ethernet source, 48 bits.
    pub ether_source: Masked<u64>,
    /// Ethernet destination, 48 bits.
    pub ether_destination: Masked<u64>,
    /// EtherType.
    pub ether_type: Masked<u16>,
    /// IPv4 source: a prefix, or any other mask.
    pub source: Masked<u32>,
    /// IPv4 destination, likewise.
    pub destination: Masked<u32>,
    /// Protocol above IPv4.
    pub protocol: Masked<u8>,
    /// Source port of TCP or UDP.
    pub source_ports: Ports,
    /// Destination port of TCP or UDP.
    pub destination_ports: Ports,
    /// The action.
    pub action: Action,
}

/// The bits of an Ethernet address.
pub(super) const ETHER_BITS: u64 = 0xffff_ffff_ffff;

impl Rule {
    /// A rule that every packet matches.
    pub fn any(action: Action) -> Self {
        Self {
            ether_source: Masked::default(),
            ether_destination: Masked::default(),
            ether_type: Masked::default(),
            source: Masked::default(),
            destination: Masked::default(),
            protocol: Masked::default(),
            source_ports: Ports::ANY,
            destination_ports: Ports::ANY,
            action,
        }
    }

    /// The bits of a [`Key`] that the rule examines.
    pub(super) fn key_mask(&self) -> [u32; Key::WORDS] {
        let (to, from) = (self.ether_destination.mask, self.ether_source.mask);
        let ports = |ports: &Ports| if ports.is_any() { 0 } else { 0xffff };
        [
            (to >> 16) as u32,
            (to << 16) as u32 | (from >> 32) as u32 & 0xffff,
            from as u32,
            u32::from(self.ether_type.mask) << 16
                | u32::from(self.protocol.mask) << 8
                | self.needs(),
            self.source.mask,
            self.destination.mask,
            ports(&self.source_ports) << 16 | ports(&self.destination_ports),
            0,
        ]
    }

    /// The fields that a packet must have, as flags of a [`Key`].
    pub fn needs(&self) -> u32 {
        let mut needs = 0;
        if !self.ether_source.is_any() || !self.ether_destination.is_any() {
            needs |= Key::ETHERNET;
        }
        if !self.ether_type.is_any() {
            needs |= Key::TYPE;
        }
        if !self.source.is_any() || !self.destination.is_any() || !self.protocol.is_any() {
            needs |= Key::IPV4;
        }
        if !self.source_ports.is_any() || !self.destination_ports.is_any() {
            needs |= Key::PORTS;
        }
        needs
    }

    /// True if a packet matches the rule: the definition, field by field.
    pub fn matches(&self, key: &Key) -> bool {
        let (ether_destination, ether_source) = key.ethernet();
        let (source, destination) = key.addresses();
        let (source_port, destination_port) = key.ports();
        key.has(self.needs())
            && self.ether_source.holds(ether_source)
            && self.ether_destination.holds(ether_destination)
            && self.ether_type.holds(key.ether_type())
            && self.source.holds(source)
            && self.destination.holds(destination)
            && self.protocol.holds(key.protocol())
            && self.source_ports.holds(source_port)
            && self.destination_ports.holds(destination_port)
    }
}

/// A rule as a line that the parser reads back.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = |net: &Masked<u32>| {
            let address = Ipv4Addr::from_bits(net.value);
            match net.prefix_len() {
                Some(len) => format!("{address}/{len}"),
                None => format!("{address}/{}", Ipv4Addr::from_bits(net.mask)),
            }
        };
        write!(out, "@{} {} ", net(&self.source), net(&self.destination))?;
        for ports in [&self.source_ports, &self.destination_ports] {
            write!(out, "{} : {} ", ports.first, ports.last)?;
        }
        write!(out, "{:#04x}/{:#04x} ", self.protocol.value, self.protocol.mask)?;
        for (word, address) in
            [("eth_src", &self.ether_source), ("eth_dst", &self.ether_destination)]
        {
            if !address.is_any() {
                write!(out, "{word}={}", Mac(address.value))?;
                if address.mask != ETHER_BITS {
                    write!(out, "/{}", Mac(address.mask))?;
                }
                out.write_str(" ")?;
            }
        }
        if !self.ether_type.is_any() {
            write!(out, "eth_type={:#06x}", self.ether_type.value)?;
            // With a mask, because the parser does not accept a length without one.
            if self.ether_type.mask != u16::MAX || self.ether_type.value < LOWEST_TYPE {
                write!(out, "/{:#06x}", self.ether_type.mask)?;
            }
            out.write_str(" ")?;
        }
        write!(out, "{}", self.action)
    }
}

struct Mac(u64);

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// Rules in order: the first one that a packet matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The rules, at most [`RuleSet::MOST`].
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// The maximum number of rules in a set.
    pub const MOST: usize = 1 << 20;

    /// The first rule that a packet matches, found by trying one after the other. Every engine must find the same.
    pub fn first_match(&self, key: &Key) -> Option<usize> {
        self.rules.iter().position(|rule| rule.matches(key))
    }
}

/// The rules, one per line.
impl fmt::Display for RuleSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|rule| writeln!(out, "{rule}"))
    }
}
