//! Names that every configuration knows.

use super::kind::{NumberKind, PAYLOAD, PORT_PROTOCOLS, TCP_OR_UDP, TRANSPORT};
use crate::memory::annotations;

/// The number of a built-in name.
pub(super) fn number(kind: NumberKind, name: &str) -> Option<u32> {
    match kind {
        NumberKind::Annotation => annotation(name),
        _ => find(table(kind), name),
    }
}

/// The built-in name of a number; if there are several, the first in alphabetical order.
pub fn name_of(kind: NumberKind, number: u32) -> Option<&'static str> {
    table(kind).iter().find(|entry| entry.1 == number).map(|entry| entry.0)
}

/// The built-in names of this kind of numbers.
pub fn names_of(kind: NumberKind) -> impl Iterator<Item = &'static str> {
    table(kind).iter().map(|entry| entry.0)
}

fn table(kind: NumberKind) -> &'static [(&'static str, u32)] {
    match kind {
        NumberKind::IpProtocol => &PROTOCOLS,
        NumberKind::Port(protocol) if PORT_PROTOCOLS.contains(&protocol) => &PORTS,
        NumberKind::IcmpType => &ICMP_TYPES,
        NumberKind::IcmpCode(3) => &UNREACHABLE_CODES,
        NumberKind::IcmpCode(5) => &REDIRECT_CODES,
        NumberKind::IcmpCode(11) => &TIME_EXCEEDED_CODES,
        NumberKind::IcmpCode(12) => &PARAMETER_PROBLEM_CODES,
        NumberKind::Port(_)
        | NumberKind::IcmpCode(_)
        | NumberKind::Annotation
        | NumberKind::Lock => &[],
    }
}

/// The offset of an annotation, its size in the upper 16 bits.
fn annotation(name: &str) -> Option<u32> {
    let known = annotations::find(name)?;
    Some((known.size << 16 | known.offset) as u32)
}

fn find(table: &[(&str, u32)], name: &str) -> Option<u32> {
    table.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// IANA, Protocol Numbers.
const PROTOCOLS: [(&str, u32); 13] = [
    ("dccp", 33),
    ("gre", 47),
    ("icmp", 1),
    ("icmp6", 58),
    ("igmp", 2),
    ("ipip", 4),
    ("payload", PAYLOAD),
    ("sctp", 132),
    ("tcp", 6),
    ("tcpudp", TCP_OR_UDP),
    ("transp", TRANSPORT),
    ("udp", 17),
    ("udplite", 136),
];

/// IANA, Service Name and Transport Protocol Port Number Registry, under Click's names.
const PORTS: [(&str, u32); 34] = [
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("pptp", 1723),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// RFC 792, RFC 950 (masks), RFC 1256 (routers).
const ICMP_TYPES: [(&str, u32); 15] = [
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

/// RFC 792, RFC 1122 3.2.2.1, RFC 1812 5.2.7.1.
const UNREACHABLE_CODES: [(&str, u32); 16] = [
    ("filterprohibited", 13),
    ("host", 1),
    ("hostprecedence", 14),
    ("hostprohibited", 10),
    ("hostunknown", 7),
    ("isolated", 8),
    ("needfrag", 4),
    ("net", 0),
    ("netprohibited", 9),
    ("netunknown", 6),
    ("port", 3),
    ("precedencecutoff", 15),
    ("protocol", 2),
    ("srcroutefail", 5),
    ("toshost", 12),
    ("tosnet", 11),
];

/// RFC 792.
const REDIRECT_CODES: [(&str, u32); 4] = [("host", 1), ("net", 0), ("toshost", 3), ("tosnet", 2)];

/// RFC 792.
const TIME_EXCEEDED_CODES: [(&str, u32); 2] = [("reassembly", 1), ("transit", 0)];

/// RFC 792, RFC 1108.
const PARAMETER_PROBLEM_CODES: [(&str, u32); 3] =
    [("erroratptr", 0), ("length", 2), ("missingopt", 1)];
