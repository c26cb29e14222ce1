//! Fields of IP packets, by name or position: `ip src/8`, `tcp sport`, `ip[8:2] & 0x3f0`, `data{3}`.

use millrace_core::args::{Arg, ArgError, ArgText, Scope};
use millrace_core::headers::protocol;
use std::net::Ipv4Addr;

/// A run of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) header: Part,
    /// The first bit, counted from the start of the header.
    pub(super) bit: u32,
    /// The length in bits.
    pub(super) bits: u32,
}

/// The part of the packet that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ip,
    Transport(Of),
    Payload,
}

/// The protocols that a transport header may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Any,
    One(u8),
    TcpOrUdp,
}

const TCP: Part = Part::Transport(Of::One(protocol::TCP));
const UDP: Part = Part::Transport(Of::One(protocol::UDP));
const ICMP: Part = Part::Transport(Of::One(protocol::ICMP));
const PORTS: Part = Part::Transport(Of::TcpOrUdp);

/// Names of fields: header, first bit, bits.
#[rustfmt::skip]
const NAMES: &[(&str, Part, u32, u32)] = &[
    ("vers", Part::Ip, 0, 4), ("hl", Part::Ip, 4, 4), ("tos", Part::Ip, 8, 8), ("dscp", Part::Ip, 8, 6),
    ("ecn", Part::Ip, 14, 2), ("len", Part::Ip, 16, 16), ("id", Part::Ip, 32, 16), ("off", Part::Ip, 48, 16),
    ("rf", Part::Ip, 48, 1), ("df", Part::Ip, 49, 1), ("mf", Part::Ip, 50, 1), ("fragoff", Part::Ip, 51, 13),
    ("ttl", Part::Ip, 64, 8), ("proto", Part::Ip, 72, 8), ("sum", Part::Ip, 80, 16), ("csum", Part::Ip, 80, 16),
    ("src", Part::Ip, 96, 32), ("dst", Part::Ip, 128, 32),
    ("sport", PORTS, 0, 16), ("dport", PORTS, 16, 16),
    ("len", UDP, 32, 16), ("sum", UDP, 48, 16), ("csum", UDP, 48, 16),
    ("seq", TCP, 32, 32), ("seqno", TCP, 32, 32), ("ack", TCP, 64, 32), ("ackno", TCP, 64, 32), ("hl", TCP, 96, 4),
    ("flags", TCP, 104, 8), ("urg", TCP, 106, 1), ("ackf", TCP, 107, 1), ("psh", TCP, 108, 1), ("push", TCP, 108, 1),
    ("rst", TCP, 109, 1), ("syn", TCP, 110, 1), ("fin", TCP, 111, 1), ("win", TCP, 112, 16), ("window", TCP, 112, 16),
    ("sum", TCP, 128, 16), ("csum", TCP, 128, 16), ("urp", TCP, 144, 16),
    ("type", ICMP, 0, 8), ("code", ICMP, 8, 8), ("sum", ICMP, 16, 16), ("csum", ICMP, 16, 16),
];

impl Part {
    /// The header's name, as the `header` handler returns it.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Part::Ip => "ip",
            Part::Transport(_) => "transp",
            Part::Payload => "payload",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Ip => "ip",
            Part::Payload => "data",
            Part::Transport(Of::Any) => "transp",
            Part::Transport(Of::TcpOrUdp) => "tcpudp",
            Part::Transport(Of::One(protocol::TCP)) => "tcp",
            Part::Transport(Of::One(protocol::UDP)) => "udp",
            Part::Transport(Of::One(_)) => "icmp",
        }
    }

    fn named(name: &str) -> Option<Part> {
        Some(match name {
            "ip" => Part::Ip,
            "tcp" => TCP,
            "udp" => UDP,
            "icmp" => ICMP,
            "tcpudp" => PORTS,
            "transp" | "transport" => Part::Transport(Of::Any),
            "data" | "payload" => Part::Payload,
            _ => return None,
        })
    }

    /// Whether a field of `other` is a field of this header too.
    fn takes(self, other: Part) -> bool {
        match (self, other) {
            (Part::Transport(wanted), Part::Transport(of)) => wanted == Of::Any || wanted.meets(of),
            _ => self == other,
        }
    }
}

impl Of {
    fn meets(self, other: Of) -> bool {
        let has_ports = |of| matches!(of, Of::One(protocol::TCP | protocol::UDP));
        self == other
            || (self == Of::TcpOrUdp && has_ports(other))
            || (other == Of::TcpOrUdp && has_ports(self))
    }

    /// Whether this is the header of packets with this protocol number.
    pub(super) fn is(self, number: u8) -> bool {
        self == Of::Any || self.meets(Of::One(number))
    }
}

impl Arg for Field {
    const EXPECTS: &'static str = "a field, such as ‘ip src/8’ or ‘ip[8:2]’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = String::from_utf8_lossy(&text.unquote()).into_owned();
        let (word, rest) = word(text.trim());
        let (header, rest) = match Part::named(word) {
            Some(header) => (Some(header), rest.trim_start()),
            None => (None, text.trim()),
        };
        let (field, rest) = match rest.chars().next() {
            Some(open @ ('[' | '{')) => place(header, open, &rest[1..])?,
            _ => named(header, rest)?,
        };
        match rest.trim_start() {
            "" => Ok(field),
            rest => narrowed(field, rest, scope),
        }
    }

    fn placeholder() -> Self {
        Self { header: Part::Ip, bit: 0, bits: 8 }
    }
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    text.split_at(end)
}

/// A field by its name, and the rest of the text.
fn named(header: Option<Part>, text: &str) -> Result<(Field, &str), ArgError> {
    let (name, rest) = word(text);
    if name.is_empty() {
        return Err(ArgError::new("missing data field"));
    }
    let all: Vec<_> = NAMES.iter().filter(|known| known.0 == name).collect();
    if all.is_empty() {
        return Err(ArgError::new(format!("unknown data field ‘{name}’")));
    }
    let fitting: Vec<_> =
        all.iter().filter(|known| header.is_none_or(|header| header.takes(known.1))).collect();
    let list = |of: &[&&(&str, Part, u32, u32)]| {
        of.iter().map(|known| known.1.name()).collect::<Vec<_>>().join(", ")
    };
    match fitting[..] {
        [&&(_, of, bit, bits)] => {
            // ‘tcp sport’ matches TCP only.
            let header = header.filter(|header| *header != Part::Transport(Of::Any)).unwrap_or(of);
            Ok((Field { header, bit, bits }, rest))
        }
        [] => Err(ArgError::new(format!(
            "no such data field ‘{} {name}’\n(‘{name}’ is valid for {})",
            header.map_or("", Part::name),
            list(&all.iter().collect::<Vec<_>>())
        ))),
        _ => Err(ArgError::new(format!(
            "ambiguous data field ‘{name}’\n(specify one of {})",
            list(&fitting)
        ))),
    }
}

/// A field by its position in bytes, `[`, or bits, `{`; `text` follows the bracket.
fn place(header: Option<Part>, open: char, text: &str) -> Result<(Field, &str), ArgError> {
    let (close, unit) = if open == '[' { (']', 8) } else { ('}', 1) };
    let wrong = || {
        let name = header.map_or("ip", Part::name);
        ArgError::new(format!(
            "syntax error after ‘{open}’, expected ‘{name}[OFF]’, ‘{name}[OFF:LEN]’, or ‘{name}[OFF1-OFF2]’"
        ))
    };
    let header = header.ok_or_else(|| ArgError::new("missing data field"))?;
    let (inside, rest) = text.split_once(close).ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let (first, length) = match inside.find([':', ',', '+', '-']) {
        None => (number(inside)?, 1),
        Some(at) => {
            let (first, second) = (number(&inside[..at])?, number(&inside[at + 1..])?);
            match inside.as_bytes()[at] {
                b'-' => (first, (second + 1).saturating_sub(first)),
                _ => (first, second),
            }
        }
    };
    if length == 0 {
        return Err(ArgError::new("nonpositive length"));
    }
    let (Some(bit), Some(bits)) = (first.checked_mul(unit), length.checked_mul(unit)) else {
        return Err(ArgError::new("out of range"));
    };
    Ok((Field { header, bit, bits }, rest))
}

/// A part of a field: `/N`, `/ADDRESS` or `& MASK`.
fn narrowed(field: Field, text: &str, scope: &Scope<'_>) -> Result<Field, ArgError> {
    if let Some(length) = text.strip_prefix('/') {
        let length = ArgText::from(length.trim());
        if let Ok(bits) = u32::parse(&length, scope) {
            if bits == 0 || bits > field.bits {
                let message = format!("‘/NUM’ should be between ‘/1’ and ‘/{}’", field.bits);
                return Err(ArgError::new(message));
            }
            return Ok(Field { bits, ..field });
        }
        return match Ipv4Addr::parse(&length, scope) {
            Ok(mask) if field.bits == 32 => masked(field, mask.to_bits(), "/IPADDR"),
            Ok(_) => Err(ArgError::new("‘/IPADDR’ only usable with IP addresses")),
            Err(_) => Err(ArgError::new("garbage after data field, expected ‘/NUM’ or ‘/IPADDR’")),
        };
    }
    match text.strip_prefix('&').map(|mask| u32::parse(&ArgText::from(mask.trim()), scope)) {
        Some(Ok(mask)) => masked(field, mask, "& MASK"),
        Some(Err(_)) => Err(ArgError::new("garbage after data field, expected ‘& MASK’")),
        None => Err(ArgError::new("garbage after data field")),
    }
}

/// The bits of a field under a mask, whose ones must be contiguous.
fn masked(field: Field, mask: u32, what: &str) -> Result<Field, ArgError> {
    let bits = mask.count_ones();
    let end = mask.trailing_zeros();
    if mask == 0 || (mask >> end).trailing_ones() != bits {
        let message = format!("‘{what}’ must contain exactly one contiguous set of 1 bits");
        return Err(ArgError::new(message));
    }
    match field.bits.checked_sub(end + bits) {
        Some(skip) => Ok(Field { bit: field.bit + skip, bits, ..field }),
        None => Err(ArgError::new(format!("‘{what}’ value ‘{mask}’ is longer than base field"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> Result<(Part, u32, u32), String> {
        let field = millrace_core::args::parse::<Field>(text, &Scope::builtin())?;
        Ok((field.header, field.bit, field.bits))
    }

    #[test]
    fn fields_are_found_by_name_and_by_position() {
        for (text, wanted) in [
            ("ip src", (Part::Ip, 96, 32)),
            ("ip src/8", (Part::Ip, 96, 8)),
            ("ip src & 0xFF000000", (Part::Ip, 96, 8)),
            ("ip src/255.0.0.0", (Part::Ip, 96, 8)),
            ("ip[12]", (Part::Ip, 96, 8)),
            ("ip[12:1]", (Part::Ip, 96, 8)),
            ("ip{96-103}", (Part::Ip, 96, 8)),
            ("ip dst & 0x00FFFF00", (Part::Ip, 136, 16)),
            ("sport", (PORTS, 0, 16)),
            ("udp dport", (UDP, 16, 16)),
            ("transp dport", (PORTS, 16, 16)),
            ("tcp flags", (TCP, 104, 8)),
            ("udp sum", (UDP, 48, 16)),
            ("data[0,4]", (Part::Payload, 0, 32)),
            ("icmp type", (ICMP, 0, 8)),
            ("fragoff", (Part::Ip, 51, 13)),
        ] {
            assert_eq!(field(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn text_that_names_no_field_is_refused() {
        for (text, word) in [
            ("", ""),
            ("ip", "missing"),
            ("colour", "unknown data field ‘colour’"),
            ("sum", "ambiguous"),
            ("udp ttl", "no such data field ‘udp ttl’"),
            ("ip src/33", "between"),
            ("ip tos & 0x100", "longer"),
            ("ip tos & 5", "contiguous"),
            ("ip tos x", "garbage"),
            ("ip[3", "syntax error"),
            ("ip[3:0]", "nonpositive"),
            ("tcp sport/10.0.0.0", "only usable"),
        ] {
            let message = field(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
    }
}
