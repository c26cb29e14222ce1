//! What the words of a condition mean.

use std::net::Ipv6Addr;

use millrace_core::args::Scope;
use millrace_core::names::{NumberKind, TCP_OR_UDP, TRANSPORT, names_of};
use millrace_core::net::EtherAddress;
use millrace_lang::nearest;

use super::case::State;
use super::check::Header;
use super::primitive::{
    DSCP, Extension, HEADER_LENGTH, ICMP_TYPE, ICMP6, ICMP6_TYPE, ID, Kind, LENGTH, Protocol, TCP,
    TCP_WINDOW, TOS, TTL, UDP, VERSION,
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

/// The words that do so after `ip6`; elsewhere they may be names of addresses.
const KINDS_OF_IP6: [(&str, Kind); 2] = [("ext", Kind::Extension), ("hlim", Kind::Field(TTL))];

/// Words of the language, which are not names even if something has that name.
const SYNTAX: [&str; 7] = ["dest", "dst", "ether", "ip", "ip6", "not", "src"];

/// Words that join or replace conditions.
const OPERATORS: [&str; 7] = ["all", "and", "any", "false", "mask", "or", "true"];

/// The protocols that are named most often, for suggestions.
const PROTOCOLS: [&str; 6] = ["gre", "icmp", "icmp6", "sctp", "tcp", "udp"];

/// The flags of RFC 9293, 3.1, that `tcp opt` accepts.
const TCP_OPTIONS: [(&str, u32); 6] =
    [("ack", 0x10), ("fin", 0x01), ("psh", 0x08), ("rst", 0x04), ("syn", 0x02), ("urg", 0x20)];

/// The types of ICMPv6 messages (RFC 4443, 2710, 4861).
const ICMP6_TYPES: [(&str, u32); 14] = [
    ("unreachable", 1),
    ("toobig", 2),
    ("timeexceeded", 3),
    ("parameterproblem", 4),
    ("echo", 128),
    ("echo-reply", 129),
    ("listenerquery", 130),
    ("listenerreport", 131),
    ("listenerdone", 132),
    ("routersolicit", 133),
    ("routeradvert", 134),
    ("neighborsolicit", 135),
    ("neighboradvert", 136),
    ("redirect", 137),
];

/// The subject that a word names after `ip6` alone.
pub(super) fn of_ip6(word: &str) -> Option<Kind> {
    KINDS_OF_IP6.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

/// The number that a word means only as a value of this kind.
pub(super) fn only_with(kind: Kind, word: &str) -> Option<u32> {
    let extensions = Extension::ALL.map(|extension| (extension.name, extension.number.into()));
    let names: &[(&str, u32)] = match kind {
        Kind::Extension => &extensions,
        Kind::Field(ICMP6_TYPE) => &ICMP6_TYPES,
        _ => &[],
    };
    names.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
}

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
    let extension = only_with(Kind::Extension, word).filter(|_| kind == Some(Kind::Extension));
    let of_icmp6 = protocol == Some(Protocol::Number(ICMP6));
    let message = only_with(Kind::Field(ICMP6_TYPE), word).filter(|_| of_icmp6);
    let candidates = [
        (Kind::Extension, extension, true),
        (Kind::Field(ICMP6_TYPE), message, true),
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

/// Whether a word begins with a letter and means nothing.
pub(super) fn is_unknown(word: &str, scope: &Scope<'_>) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && !SYNTAX.contains(&word)
        && !OPERATORS.contains(&word)
        && meaning(word, None, None, scope) == Meaning::Nothing
}

/// The help about a word that means nothing as a value of this kind: the word that was probably meant.
pub(super) fn unknown(word: &str, kind: Option<Kind>) -> String {
    if let Some(wrong) = wrong_address(word, None) {
        return wrong;
    }
    let near = match word {
        "sport" | "srcport" => Some("src port"),
        "dport" | "dstport" => Some("dst port"),
        _ => {
            let kinds = KINDS.iter().map(|(name, _)| *name);
            let options = TCP_OPTIONS.iter().map(|(name, _)| *name);
            let states = State::ALL.map(State::word);
            let all = OPERATORS.into_iter().chain(kinds).chain(SYNTAX).chain(PROTOCOLS);
            let any = || nearest(word, all.chain(options.clone()).chain(states));
            nearest(word, values_of(kind)).or_else(any)
        }
    };
    match near {
        // Right in itself, and wrong where it is.
        Some(near) if near == word => format!("‘{word}’ cannot stand here"),
        Some(near) => format!("‘{word}’ is unknown; did you mean ‘{near}’?"),
        None => format!("‘{word}’ is neither a keyword nor a known name, number or address"),
    }
}

/// The names of a kind's values, for suggestions.
fn values_of(kind: Option<Kind>) -> Vec<&'static str> {
    let of = |table: &[(&'static str, u32)]| table.iter().map(|(name, _)| *name).collect();
    match kind {
        Some(Kind::Extension) => Extension::ALL.map(|extension| extension.name).to_vec(),
        Some(Kind::Field(ICMP6_TYPE)) => of(&ICMP6_TYPES),
        Some(Kind::Field(ICMP_TYPE)) => names_of(NumberKind::IcmpType).collect(),
        Some(Kind::Protocol) => names_of(NumberKind::IpProtocol).collect(),
        Some(Kind::Port) => names_of(NumberKind::Port(TCP)).collect(),
        Some(Kind::TcpOption) => of(&TCP_OPTIONS),
        _ => Vec::new(),
    }
}

/// What is wrong with a word that is written like an address or a network, and is none that fits the header. `None` for
/// other words.
pub(super) fn wrong_address(word: &str, header: Option<Header>) -> Option<String> {
    let (address, length) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
    let made_of = |is: fn(u8) -> bool, marks: &[u8]| {
        address.bytes().all(|byte| is(byte) || marks.contains(&byte))
    };
    let six = address.matches(':').count() > 1 && made_of(|it| it.is_ascii_alphanumeric(), b":.");
    let four = address.contains('.') && made_of(|it| it.is_ascii_digit(), b".");
    if !six && !four {
        return None;
    }
    let kind = if length.is_some() { "network" } else { "address" };
    Some(match header {
        Some(Header::Ether) => format!("‘{word}’ is no Ethernet address"),
        Some(Header::Ip6) if address.parse::<EtherAddress>().is_ok() => {
            format!("‘{word}’ is an Ethernet address, no IPv6 {kind}")
        }
        Some(Header::Ip) => format!("‘{word}’ is no IPv4 {kind}"),
        None if four => format!("‘{word}’ is no IPv4 {kind}"),
        _ if length.is_some() && address.parse::<Ipv6Addr>().is_ok() => {
            format!("‘{word}’ is no IPv6 network: its length is a number from 0 to 128")
        }
        None if length.is_none() && !address.contains("::") => {
            format!("‘{word}’ is neither an IPv6 address nor an Ethernet address")
        }
        _ => format!("‘{word}’ is no IPv6 {kind}"),
    })
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
