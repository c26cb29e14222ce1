//! The conditions that rules are built of: `src host 10.0.0.1`, `tcp port > 1023`, `ip frag`.

use std::fmt;

use millrace_core::headers::protocol;

use super::case::{Family, State};

/// The subject of a condition, as far as its words name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Ether,
    Protocol,
    Port,
    TcpOption,
    /// An IPv6 extension header.
    Extension,
    Fragment,
    Unfragmented,
    Ect,
    Ce,
    Field(Field),
}

impl Kind {
    /// True for kinds that a number can inherit: `port 80 or 81`.
    pub(super) fn takes_numbers(self) -> bool {
        matches!(self, Kind::Protocol | Kind::Port | Kind::Extension | Kind::Field(_))
    }

    /// True for fields of the IPv4 header that IPv6 headers do not have.
    pub(super) fn is_of_ip4_alone(self) -> bool {
        [Kind::Field(LENGTH), Kind::Field(ID), Kind::Field(HEADER_LENGTH)].contains(&self)
    }

    /// True for kinds whose values are addresses or networks.
    pub(super) fn has_addresses(self) -> bool {
        matches!(self, Kind::Host | Kind::Net | Kind::Ether)
    }

    /// True for kinds of which a packet has a source and a destination.
    pub(super) fn has_ends(self) -> bool {
        self.has_addresses() || self == Kind::Port
    }
}

/// Some bits of a header. They lie within one aligned word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The protocol of the transport header that this is a field of; `None` for the IP header.
    pub(super) protocol: Option<Protocol>,
    /// The first bit, counted from the start of the header.
    pub(super) bit: u32,
    /// How many bits, 1 to 32.
    pub(super) bits: u32,
}

impl Field {
    const fn ip(bit: u32, bits: u32) -> Self {
        Self { protocol: None, bit, bits }
    }

    const fn of(protocol: u8, bit: u32, bits: u32) -> Self {
        Self { protocol: Some(Protocol::Number(protocol)), bit, bits }
    }

    /// The bits of the value.
    pub(super) fn mask(self) -> u32 {
        u32::MAX.checked_shr(32 - self.bits).unwrap_or(0)
    }
}

/// Version (RFC 791, 3.1, as are the other fields of the IP header).
pub(super) const VERSION: Field = Field::ip(0, 4);
/// Header length in words.
pub(super) const HEADER_LENGTH: Field = Field::ip(4, 4);
/// Type of service.
pub(super) const TOS: Field = Field::ip(8, 8);
/// Differentiated services code point (RFC 2474).
pub(super) const DSCP: Field = Field::ip(8, 6);
/// Total length.
pub(super) const LENGTH: Field = Field::ip(16, 16);
/// Identification.
pub(super) const ID: Field = Field::ip(32, 16);
/// Time to live.
pub(super) const TTL: Field = Field::ip(64, 8);
/// Window (RFC 9293, 3.1).
pub(super) const TCP_WINDOW: Field = Field::of(TCP, 14 * 8, 16);
/// Type (RFC 792).
pub(super) const ICMP_TYPE: Field = Field::of(ICMP, 0, 8);

/// Type (RFC 4443).
pub(super) const ICMP6_TYPE: Field = Field::of(ICMP6, 0, 8);

/// The bits of the congestion field in the type of service (RFC 3168).
pub(super) const ECN_MASK: u32 = 3;
/// Congestion experienced.
pub(super) const ECN_CE: u32 = 3;

pub(super) const ICMP: u8 = 1;
pub(super) const ICMP6: u8 = 58;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// RFC 4340; its header begins with ports, as TCP's and UDP's do.
pub(super) const DCCP: u8 = 33;

/// What the protocol of a packet must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The one with this number.
    Number(u8),
    /// TCP or UDP: `tcpudp`.
    TcpOrUdp,
    /// Any: `transp[0]` is the first byte after the IP header, whatever its meaning.
    Any,
}

/// Which of a packet's two addresses or ports a condition tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Source,
    Destination,
    Either,
    Both,
}

impl Ends {
    pub(super) fn has_source(self) -> bool {
        self != Ends::Destination
    }

    pub(super) fn has_destination(self) -> bool {
        self != Ends::Source
    }
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Greater,
    Less,
}

/// A relation, and whether it is negated: `>=` is the negation of `<`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operator {
    pub(super) relation: Relation,
    pub(super) negated: bool,
}

impl Operator {
    pub(super) const EQUAL: Operator = Operator { relation: Relation::Equal, negated: false };

    /// The operator for a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        let (relation, negated) = match word {
            "=" | "==" => (Relation::Equal, false),
            "!=" => (Relation::Equal, true),
            ">" => (Relation::Greater, false),
            "<=" => (Relation::Greater, true),
            "<" => (Relation::Less, false),
            ">=" => (Relation::Less, true),
            _ => return None,
        };
        Some(Self { relation, negated })
    }
}

/// A masked number compared with another: `& mask == value` or `& mask > value`, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// `>` instead of `==`.
    pub(super) greater: bool,
    /// The bits to compare. If none, 0 is compared with 0.
    pub(super) mask: u32,
    pub(super) value: u32,
    pub(super) negated: bool,
}

/// A condition whose words have been checked: the IP version and the protocol that the packet must have, if any, and the
/// condition that must hold in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Primitive {
    pub(super) family: Option<Family>,
    pub(super) protocol: Option<Protocol>,
    pub(super) condition: Condition,
}

/// See [`Primitive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// `true`, `false`.
    Constant(bool),
    /// `src host 10.0.0.1`, `net 10.0.0.0/8`. Numbers are in network order.
    Address { ends: Ends, value: u32, mask: u32, negated: bool },
    /// `src host 2001:db8::1`, `ip6 net 2001:db8::/32`. The most significant byte comes first.
    Address6 { ends: Ends, value: u128, mask: u128, negated: bool },
    /// `ether host 1:2:3:4:5:6`.
    Ether { ends: Ends, value: [u8; 6], mask: [u8; 6], negated: bool },
    /// `ip proto > 6`; without a comparison, only the protocol of the primitive.
    Protocol(Option<Comparison>),
    /// `ip frag`.
    Fragment { negated: bool },
    /// `ip6 ext routing`.
    Extension(Extension),
    /// `established`.
    State(State),
    /// `port 80`.
    Port { ends: Ends, comparison: Comparison },
    /// `tcp opt syn`: all these bits of the flags are set.
    TcpOption(u8),
    /// `ip ttl < 10`, `tcp[13] & 2 != 0`.
    Field(Field, Comparison),
}

impl Primitive {
    /// A condition on packets of any protocol.
    pub(super) const fn any(condition: Condition) -> Self {
        Self { family: None, protocol: None, condition }
    }
}

/// An IPv6 extension header (RFC 8200, 4; RFC 4302).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    /// What rules call it.
    pub(super) name: &'static str,
    /// Its number as a next header.
    pub(super) number: u8,
}

impl Extension {
    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number }
    }

    /// All that packets are tested for.
    pub(super) const ALL: [Extension; 5] = [
        Extension::new("hop", protocol::HOP_BY_HOP),
        Extension::new("routing", protocol::ROUTING),
        Extension::new("frag", protocol::FRAGMENT),
        Extension::new("auth", protocol::AH),
        Extension::new("dest", protocol::DESTINATION_OPTIONS),
    ];

    /// The bit for the extension header with this number among those that a packet has.
    pub(super) fn bit(number: u8) -> u8 {
        let place = Self::ALL.iter().position(|extension| extension.number == number);
        place.map_or(0, |place| 1 << place)
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Ends::Source => "src",
            Ends::Destination => "dst",
            Ends::Either => "src or dst",
            Ends::Both => "src and dst",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Number(ICMP) => out.write_str("icmp"),
            Protocol::Number(ICMP6) => out.write_str("icmp6"),
            Protocol::Number(2) => out.write_str("igmp"),
            Protocol::Number(4) => out.write_str("ipip"),
            Protocol::Number(TCP) => out.write_str("tcp"),
            Protocol::Number(UDP) => out.write_str("udp"),
            Protocol::Number(other) => write!(out, "ip proto {other}"),
            Protocol::TcpOrUdp => out.write_str("tcpudp"),
            Protocol::Any => out.write_str("transp"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Kind::Host => "ip host",
            Kind::Net => "ip net",
            Kind::Ether => "ether host",
            Kind::Protocol => "proto",
            Kind::Port => "port",
            Kind::TcpOption => "tcp opt",
            Kind::Extension => "ip6 ext",
            Kind::Fragment => "ip frag",
            Kind::Unfragmented => "ip unfrag",
            Kind::Ect => "ip ect",
            Kind::Ce => "ip ce",
            Kind::Field(LENGTH) => "ip len",
            Kind::Field(ID) => "ip id",
            Kind::Field(VERSION) => "ip vers",
            Kind::Field(HEADER_LENGTH) => "ip hl",
            Kind::Field(TOS) => "ip tos",
            Kind::Field(DSCP) => "ip dscp",
            Kind::Field(TTL) => "ip ttl",
            Kind::Field(TCP_WINDOW) => "tcp win",
            Kind::Field(ICMP_TYPE) => "icmp type",
            Kind::Field(ICMP6_TYPE) => "icmp6 type",
            Kind::Field(Field { protocol: None, .. }) => "ip[...]",
            Kind::Field(Field { protocol: Some(protocol), .. }) => {
                return write!(out, "{protocol}[...]");
            }
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match (self.relation, self.negated) {
            (Relation::Equal, false) => "=",
            (Relation::Equal, true) => "!=",
            (Relation::Greater, false) => ">",
            (Relation::Greater, true) => "<=",
            (Relation::Less, false) => "<",
            (Relation::Less, true) => ">=",
        })
    }
}
