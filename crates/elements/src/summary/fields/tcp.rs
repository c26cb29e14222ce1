//! Fields of the TCP header.

use millrace_core::headers::{Header, TcpHeader, protocol};

use super::draft::Draft;
use super::field::{Field, Size, Value, byte, half, number, order::TRANSPORT, up_to};
use super::seen::{Missing, Seen, u8_at, u16_at, u32_at};
use super::tcp_options::{self, Which};

pub(crate) const FIELDS: &[Field] = &[
    Field::number("tcp_seq", 4, |seen| Some(Value::Number(u32_at(seen.tcp(8)?, 4)))).put(
        TRANSPORT,
        number,
        |draft, value| put(draft, 4, &value.number().to_be_bytes()),
    ),
    Field::number("tcp_ack", 4, |seen| Some(Value::Number(u32_at(seen.tcp(12)?, 8)))).put(
        TRANSPORT,
        number,
        |draft, value| put(draft, 8, &value.number().to_be_bytes()),
    ),
    Field::number("tcp_off", 1, |seen| Some(Value::Number((u8_at(seen.tcp(13)?, 12) >> 4) * 4)))
        .put(TRANSPORT - 1, byte, put_header_len),
    Field::number("tcp_flags", 1, |seen| Some(Value::Number(u16_at(seen.tcp(14)?, 12) & 0xfff)))
        .shown(show_flags)
        .put(TRANSPORT, parse_flags, |draft, value| {
            if let Some(at) = header(draft) {
                let flags = value.number() as u16 & 0xfff | draft.half(at + 12) & 0xf000;
                draft.set(at + 12, &flags.to_be_bytes());
            }
        }),
    Field::number("tcp_window", 2, |seen| Some(Value::Number(u16_at(seen.tcp(16)?, 14)))).put(
        TRANSPORT,
        half,
        |draft, value| put(draft, 14, &(value.number() as u16).to_be_bytes()),
    ),
    Field::number("tcp_urp", 2, |seen| Some(Value::Number(u16_at(seen.tcp(20)?, 18)))).put(
        TRANSPORT,
        half,
        |draft, value| put(draft, 18, &(value.number() as u16).to_be_bytes()),
    ),
    Field::special(
        "tcp_opt",
        Size::Counted,
        |seen| all_options(seen).map(|options| Value::Bytes(options.into())),
        |out, value, _| tcp_options::show(out, value.bytes(), Which::All),
    )
    .put(TRANSPORT + 3, |text, _| parse(text, Which::All), put_options),
    Field::special(
        "tcp_ntopt",
        Size::Counted,
        |seen| some_options(seen, Which::NotTimestamps),
        |out, value, seen| show_some(out, value, seen, Which::NotTimestamps),
    )
    .put(TRANSPORT + 2, |text, _| parse(text, Which::NotTimestamps), put_options),
    Field::special(
        "tcp_sack",
        Size::Counted,
        |seen| some_options(seen, Which::Sack),
        |out, value, seen| show_some(out, value, seen, Which::Sack),
    )
    .put(TRANSPORT + 1, |text, _| parse(text, Which::Sack), put_options),
];

pub(crate) const SYNONYMS: &[(&str, &str)] =
    &[("tcp_seqno", "tcp_seq"), ("tcp_ackno", "tcp_ack"), ("tcp_win", "tcp_window")];

/// The offset of the TCP header, which is created if there is none and the packet may have one.
fn header(draft: &mut Draft<'_>) -> Option<usize> {
    draft.ip(Some(protocol::TCP))?;
    draft.transport_header()
}

fn put(draft: &mut Draft<'_>, offset: usize, bytes: &[u8]) {
    if let Some(at) = header(draft) {
        draft.set(at + offset, bytes);
    }
}

/// The letters of the flags, from the lowest bit.
const FLAGS: &[u8; 9] = b"FSRPAUECN";

fn show_flags(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    let flags = value.number();
    if flags == 0 {
        return out.push(b'.');
    }
    out.extend((0..).zip(FLAGS).filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, &flag)| flag));
}

/// Letters, including those of older dumps, or a number.
fn parse_flags(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    match text {
        b"." => return Some(Value::Number(0)),
        [] => return None,
        [b'0'..=b'9', ..] => return up_to(text, 0xfff),
        _ => {}
    }
    let mut flags = 0;
    for &letter in text {
        flags |= 1 << flag_bit(letter)?;
    }
    Some(Value::Number(flags))
}

/// The bit of a flag's letter, which may be one of older dumps.
pub(crate) fn flag_bit(letter: u8) -> Option<usize> {
    let letter = match letter {
        b'X' => b'E',
        b'Y' | b'W' => b'C',
        letter => letter,
    };
    FLAGS.iter().position(|&flag| flag == letter)
}

fn header_len(header: &[u8]) -> usize {
    (u8_at(header, 12) >> 4) as usize * 4
}

/// The options, if there are none or all of them are present.
fn all_options<'p>(seen: &mut Seen<'p>) -> Option<&'p [u8]> {
    let options =
        seen.tcp.filter(|header| header.len() >= 13).and_then(|header| match header_len(header) {
            0..=TcpHeader::LEN => Some(&[][..]),
            length => header.get(TcpHeader::LEN..length),
        });
    options.or_else(|| missing(seen))
}

fn missing<T>(seen: &mut Seen<'_>) -> Option<T> {
    let captured = seen.ip.map_or(0, |ip| ip.bytes.len().saturating_sub(ip.transport));
    seen.missing(Missing::Transport(protocol::TCP, captured + 1))
}

/// Selected options, never timestamps. If a timestamp is the only option, its start is enough.
fn some_options<'p>(seen: &mut Seen<'p>, which: Which) -> Option<Value<'p>> {
    const ALIGNED_TIMESTAMP: &[u8] = &[1, 1, 8, 10];
    let header = seen.tcp.filter(|header| header.len() >= 13);
    let is_timestamp = header.is_some_and(|header| {
        header_len(header) == 32 && header.get(20..24) == Some(ALIGNED_TIMESTAMP)
    });
    if is_timestamp {
        return Some(Value::Bytes((&[][..]).into()));
    }
    let options = all_options(seen)?;
    Some(Value::Bytes(tcp_options::select(options, which).into()))
}

/// Malformed options are shown from the packet, not from the selection.
fn show_some(out: &mut Vec<u8>, value: &Value<'_>, seen: &Seen<'_>, which: Which) {
    let options = seen.tcp.and_then(|header| header.get(TcpHeader::LEN..header_len(header)));
    match options {
        Some(options) => tcp_options::show(out, options, which),
        None => tcp_options::show(out, value.bytes(), which),
    }
}

fn parse(text: &[u8], which: Which) -> Option<Value<'static>> {
    tcp_options::parse(text, which).map(|options| Value::Bytes(options.into()))
}

fn put_options(draft: &mut Draft<'_>, value: &Value<'_>) {
    let Some(at) = header(draft) else { return };
    draft.has_tcp_options = true;
    let options = value.bytes();
    if options.is_empty() {
        return;
    }
    let length = (TcpHeader::LEN + options.len()).next_multiple_of(4);
    draft.reach(at, length);
    let offset = draft.byte(at + 12);
    if length > usize::from(offset >> 4) * 4 {
        draft.set(at + 12, &[((length / 4) as u8) << 4 | offset & 0xf]);
    }
    let mut padded = options.to_vec();
    padded.resize(length - TcpHeader::LEN, 0);
    draft.set(at + TcpHeader::LEN, &padded);
}

fn put_header_len(draft: &mut Draft<'_>, value: &Value<'_>) {
    let Some(at) = header(draft) else { return };
    let length = (value.number() as usize).next_multiple_of(4);
    let offset = draft.byte(at + 12);
    let now = usize::from(offset >> 4) * 4;
    if length > now {
        draft.grow(length - now);
        draft.set(at + now, &vec![0; length - now]);
    }
    draft.set(at + 12, &[((length / 4) as u8) << 4 | offset & 0xf]);
}

/// By default, fields are shown as numbers.
#[cfg(test)]
mod tests {
    use super::*;

    fn shown(options: &[u8], which: Which) -> String {
        let mut out = Vec::new();
        tcp_options::show(&mut out, options, which);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn options_are_shown_as_text() {
        let mss = [2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(shown(&mss, Which::All), "mss1460;wscale7;sackok;ts1:2");
        assert_eq!(shown(&mss, Which::NotTimestamps), "mss1460;wscale7;sackok");
        assert_eq!(shown(&mss, Which::Sack), "sackok");
        assert_eq!(shown(&[1, 1, 0, 77], Which::All), ".");
        for bad in
            [&[2][..], &[2, 3, 1], &[3, 4, 1, 1], &[9, 1], &[9, 5, 0], &[5, 9, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(shown(bad, Which::All), "?", "{bad:?}");
            assert_eq!(shown(bad, Which::Sack), "?", "{bad:?}");
        }
    }

    #[test]
    fn options_are_parsed_from_text() {
        let parse = |text: &str| tcp_options::parse(text.as_bytes(), Which::All);
        assert_eq!(parse("ts1:2"), Some(vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]));
        assert_eq!(parse("sack1-2,sack3:4;98,nop,eol").unwrap().len(), 21);
        assert_eq!(parse("99=0:5:10"), Some(vec![99, 5, 0, 5, 10]));
        for bad in [
            "",
            "mss",
            "mss65536",
            "wscale256",
            "sack1",
            "sack1-",
            "ts1",
            "ts1:",
            "256",
            "1=256",
            "eol,nop",
            "nop.",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(tcp_options::parse(b"mss1", Which::Sack), None);
        assert_eq!(tcp_options::parse(b"nop", Which::NotTimestamps), None);
        // Too long, unless leading padding can be removed.
        let sacks = "sack1-2,sack3-4,sack5-6,sack7-8";
        assert_eq!(parse(&format!("nop,nop,{sacks},99=1:2:3:4")).unwrap().len(), 40);
        assert_eq!(parse(&format!("{sacks},99=1:2:3:4:5")), None);
    }
}
