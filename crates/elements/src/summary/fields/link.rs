//! Fields of the Ethernet header.

use millrace_core::headers::ether_type;
use millrace_core::net::EtherAddress;

use super::draft::Draft;
use super::field::{Field, Size, Value, append, order::LINK};
use super::seen::{Missing, Seen, u16_at};

pub(super) const FIELDS: &[Field] = &[
    Field::special(
        "eth_src",
        Size::Ether,
        |seen| Some(Value::Ether(*header(seen)?.get(6..)?.first_chunk()?)),
        show_address,
    )
    .outside_ip()
    .put(LINK, parse_address, |draft, value| put_address(draft, 6, value)),
    Field::special(
        "eth_dst",
        Size::Ether,
        |seen| Some(Value::Ether(*header(seen)?.first_chunk()?)),
        show_address,
    )
    .outside_ip()
    .put(LINK, parse_address, |draft, value| put_address(draft, 0, value)),
    Field::number("eth_type", 2, |seen| Some(Value::Number(u16_at(header(seen)?, 12))))
        .outside_ip()
        .shown(|out, value, _| append(out, format_args!("{:04X}", value.number())))
        .put(LINK, parse_type, |draft, value| {
            let at = draft.ether();
            let kind = value.number() as u16;
            draft.set(at + 12, &kind.to_be_bytes());
            if kind != ether_type::IPV4 && kind != ether_type::IPV6 {
                draft.is_ip = false;
            }
        }),
];

pub(super) const SYNONYMS: &[(&str, &str)] =
    &[("ether_src", "eth_src"), ("ether_dst", "eth_dst"), ("ether_type", "eth_type")];

/// The Ethernet header, which ends directly before the network header or, without one, at the packet's end.
fn header<'p>(seen: &mut Seen<'p>) -> Option<&'p [u8]> {
    const LEN: isize = 14;
    let packet = seen.packet;
    let network = packet.network_header();
    let (mac, bytes) = match packet.mac_header() {
        Some(mac) => (Some(mac), packet.mac_data()),
        None => (network.is_none_or(|at| at > 0).then_some(0), Some(packet.data())),
    };
    let end = network.unwrap_or(packet.len() as isize);
    let bytes = bytes.filter(|bytes| bytes.len() >= LEN as usize);
    let found = bytes.filter(|_| mac.is_some_and(|mac| mac + LEN == end));
    found.or_else(|| seen.missing(Missing::Ethernet))
}

fn show_address(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    if let Value::Ether(address) = *value {
        append(out, format_args!("{}", EtherAddress(address)));
    }
}

fn parse_address(text: &[u8], draft: &Draft<'_>) -> Option<Value<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    let address: EtherAddress = millrace_core::args::parse(text, &draft.scope).ok()?;
    Some(Value::Ether(address.0))
}

fn put_address(draft: &mut Draft<'_>, offset: usize, value: &Value<'_>) {
    if let Value::Ether(address) = value {
        let at = draft.ether();
        draft.set(at + offset, address);
    }
}

/// A hexadecimal type.
fn parse_type(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let kind = u16::from_str_radix(digits, 16).ok()?;
    Some(Value::Number(kind.into()))
}
