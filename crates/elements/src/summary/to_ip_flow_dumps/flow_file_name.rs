//! File names for flows, from a pattern.

use std::fmt::Write;

use millrace_core::Packet;
use millrace_core::headers::{Header, Ipv4Header, protocol};

use crate::summary::fields::seen::u16_at;

/// The maximum padding.
const MAX_WIDTH: usize = 255;

/// Expands the `%` escapes of a pattern for the flow of a packet. Errors in the pattern are added to `errors`.
pub(super) fn expand(pattern: &str, packet: &Packet, errors: &mut Vec<String>) -> String {
    let mut name = String::new();
    let mut rest = pattern;
    while let Some((plain, escape)) = rest.split_once('%') {
        name += plain;
        let zero_pad = escape.starts_with('0');
        let escape = escape.get(usize::from(zero_pad)..).unwrap_or_default();
        let (width, escape) = take_number(escape);
        let (precision, escape) = match escape.strip_prefix('.') {
            Some(escape) => {
                let (precision, escape) = take_number(escape);
                (Some(precision.unwrap_or(0)), escape)
            }
            None => (None, escape),
        };
        let Some(letter) = escape.chars().next() else {
            errors.push("bad filename pattern".to_owned());
            return name;
        };
        rest = escape.get(letter.len_utf8()..).unwrap_or_default();
        let value = value_of(letter, precision, packet).unwrap_or_else(|| {
            errors.push(format!("bad filename pattern `%{letter}'"));
            String::new()
        });
        let missing = width.unwrap_or(0).min(MAX_WIDTH).saturating_sub(value.len());
        let padding = if zero_pad { "0" } else { "_" };
        name += &padding.repeat(missing);
        name += &value;
    }
    name + rest
}

/// Removes decimal digits from the start of a text.
fn take_number(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.parse().unwrap_or(MAX_WIDTH);
    ((end > 0).then_some(number), rest)
}

/// The expansion of an escape, if it is valid.
fn value_of(letter: char, precision: Option<usize>, packet: &Packet) -> Option<String> {
    let network = packet.network_data().unwrap_or_default();
    let ip = Ipv4Header::view(network).map(|(ip, _)| ip);
    let transport = packet.transport_data().unwrap_or_default();
    let address = |octets: [u8; 4]| match precision.and_then(|index| octets.get(index)) {
        Some(octet) => octet.to_string(),
        None => std::net::Ipv4Addr::from(octets).to_string(),
    };
    let mut text = String::new();
    match letter {
        'n' | 'x' | 'X' => {
            let aggregate = packet.aggregate();
            let part = match precision {
                Some(byte @ 0..=3) => aggregate >> (8 * (3 - byte)) & 0xff,
                Some(half @ 4..=5) => aggregate >> (16 * (5 - half)) & 0xffff,
                _ => aggregate,
            };
            // Writing to a string cannot fail. Click prints the decimal number as a signed integer.
            let _ = match letter {
                'n' => write!(text, "{}", part as i32),
                'x' => write!(text, "{part:x}"),
                _ => write!(text, "{part:X}"),
            };
        }
        's' => text = address(ip.map(|ip| ip.src).unwrap_or_default()),
        'd' => text = address(ip.map(|ip| ip.dst).unwrap_or_default()),
        'S' => text = u16_at(transport, 0).to_string(),
        'D' => text = u16_at(transport, 2).to_string(),
        'p' => {
            let is_tcp = ip.is_some_and(|ip| ip.protocol == protocol::TCP);
            text = if is_tcp { "T" } else { "U" }.to_owned();
        }
        '%' => text.push('%'),
        _ => return None,
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_expanded() {
        let mut bytes =
            vec![0x45, 0, 0, 28, 0, 0, 0, 0, 9, 17, 0, 0, 10, 1, 2, 3, 192, 168, 0, 200];
        bytes.extend([0, 53, 0x12, 0x34, 0, 8, 0, 0]);
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(0, 20);
        packet.set_aggregate(0x0102_abcd);
        for (pattern, expected) in [
            ("a%nb%%", "a16952269b%"),
            ("%.0n.%.1n.%.2n.%.3n.%.4n.%.5n", "1.2.171.205.258.43981"),
            ("%x %X %.5X", "102abcd 102ABCD ABCD"),
            ("%s>%d", "10.1.2.3>192.168.0.200"),
            ("%.0s %.3d %03.3s %5.1d", "10 200 003 __168"),
            ("%S-%05D-%p", "53-04660-U"),
            ("none", "none"),
        ] {
            let mut errors = Vec::new();
            assert_eq!(expand(pattern, &packet, &mut errors), expected);
            assert!(errors.is_empty());
        }
        let mut errors = Vec::new();
        assert_eq!(expand("a%qb%9999999999999999999999q%", &packet, &mut errors).len(), 257);
        assert_eq!(errors.len(), 3);
        packet.set_aggregate(u32::MAX);
        assert_eq!(expand("%n", &packet, &mut errors), "-1");
    }
}
