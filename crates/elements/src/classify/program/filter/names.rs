//! What the words of a condition mean.

use millrace_core::args::Scope;
use millrace_core::names::{NumberKind, TCP_OR_UDP, TRANSPORT};

use super::primitive::{
    DSCP, HEADER_LENGTH, ICMP_TYPE, ID, Kind, LENGTH, Protocol, TCP, TCP_WINDOW, TOS, TTL, UDP,
    VERSION,
};

/// The meaning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The subject of the condition.
    Kind(Kind),
    /// A value of that kind.
    Value(Kind, u32),
    /// Not a name.
    Nothing,
    /// A name that has no meaning here, or more than one; with the error message.
    Wrong(String),
}

/// The words that name the subject of a condition.
const KINDS: [(&str, Kind); 18] = [
    ("ce", Kind::Ce),
    ("dscp", Kind::Field(DSCP)),
    ("ect", Kind::Ect),
    ("frag", Kind::Fragment),
    ("hl", Kind::Field(HEADER_LENGTH)),
    ("host", Kind::Host),
    ("id", Kind::Field(ID)),
    ("len", Kind::Field(LENGTH)),
    ("net", Kind::Net),
    ("opt", Kind::TcpOption),
    ("port", Kind::Port),
    ("proto", Kind::Protocol),
    ("tos", Kind::Field(TOS)),
    ("ttl", Kind::Field(TTL)),
    ("type", Kind::Field(ICMP_TYPE)),
    ("unfrag", Kind::Unfragmented),
    ("vers", Kind::Field(VERSION)),
    ("win", Kind::Field(TCP_WINDOW)),
];

/// Words of the language, which are not names even if something has that name.
const SYNTAX: [&str; 6] = ["dest", "dst", "ether", "ip", "not", "src"];

/// The flags of RFC 9293, 3.1, that `tcp opt` accepts.
const TCP_OPTIONS: [(&str, u32); 6] =
    [("ack", 0x10), ("fin", 0x01), ("psh", 0x08), ("rst", 0x04), ("syn", 0x02), ("urg", 0x20)];

/// The meaning of a word in a condition about `kind` and packets of `protocol`, as far as these are known.
pub(super) fn meaning(
    word: &str,
    kind: Option<Kind>,
    protocol: Option<Protocol>,
    scope: &Scope<'_>,
) -> Meaning {
    if kind.is_none() {
        if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == word) {
            return Meaning::Kind(*kind);
        }
        if SYNTAX.contains(&word) {
            return Meaning::Nothing;
        }
    }
    let number = |kind| scope.number_named(kind, word);
    let option = TCP_OPTIONS.iter().find(|(name, _)| *name == word).map(|(_, flag)| *flag);
    let ports = [Some(Protocol::TcpOrUdp), None];
    let transport =
        |wanted: u8| protocol == Some(Protocol::Number(wanted)) || ports.contains(&protocol);
    let candidates = [
        (Kind::Protocol, number(NumberKind::IpProtocol), true),
        (Kind::Port, number(NumberKind::Port(TCP)), transport(TCP)),
        (Kind::Port, number(NumberKind::Port(UDP)), transport(UDP)),
        (Kind::TcpOption, option, transport(TCP)),
        (
            Kind::Field(ICMP_TYPE),
            number(NumberKind::IcmpType),
            [Some(Protocol::Number(super::primitive::ICMP)), None].contains(&protocol),
        ),
    ];
    let named = || candidates.iter().filter_map(|&(of, value, fits)| Some((of, value?, fits)));
    let mut fitting: Vec<(Kind, u32)> = named()
        .filter(|&(of, _, fits)| fits && kind.is_none_or(|kind| kind == of))
        .map(|(of, value, _)| (of, value))
        .collect();
    // A port number that is the same for TCP and UDP.
    fitting.dedup();
    match fitting[..] {
        [(kind, value)] => Meaning::Value(kind, value),
        [] if named().next().is_none() => Meaning::Nothing,
        _ => {
            let mut tries: Vec<String> =
                named().map(|(of, ..)| format!("‘{}’", spelled(Some(of), None, word))).collect();
            tries.dedup();
            let what = if fitting.is_empty() { "meaningless" } else { "ambiguous" };
            let given = spelled(kind, protocol, word);
            Meaning::Wrong(format!("‘{given}’ is {what}; try {}", tries.join(", ")))
        }
    }
}

/// The protocol for a number from [`Meaning::Value`].
pub(super) fn protocol(number: u32) -> Option<Protocol> {
    match number {
        TCP_OR_UDP => Some(Protocol::TcpOrUdp),
        TRANSPORT => Some(Protocol::Any),
        _ => u8::try_from(number).ok().map(Protocol::Number),
    }
}

/// A condition as a user would write it.
fn spelled(kind: Option<Kind>, protocol: Option<Protocol>, word: &str) -> String {
    let kind = kind.map(|kind| kind.to_string());
    let protocol = protocol.map(|protocol| protocol.to_string());
    let words: Vec<String> = protocol.into_iter().chain(kind).chain([word.to_owned()]).collect();
    words.join(" ")
}
