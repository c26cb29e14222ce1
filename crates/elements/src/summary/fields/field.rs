//! A field of a summary dump: its name, formats, and position in a packet. `table.rs` lists the fields.

use std::borrow::Cow;
use std::io::Write;

use millrace_core::Timestamp;

use super::draft::Draft;
use super::seen::Seen;
use super::text;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'p> {
    Number(u64),
    Time(Timestamp),
    Ether([u8; 6]),
    /// Options, payload or a digest.
    Bytes(Cow<'p, [u8]>),
}

impl Value<'_> {
    /// The number, truncated to 32 bits; 0 for other values.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Number(number) => *number as u32,
            _ => 0,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The size of a field in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A number of this many bytes.
    Number(usize),
    /// Seconds and microseconds.
    Time,
    /// Nanoseconds and seconds, in this order.
    NanoTime,
    Ether,
    /// A length byte, and then that many bytes.
    Counted,
    Digest,
    /// The field has no binary form.
    None,
}

/// The MD5 digest of no bytes, which stands for a digest that is not there.
pub(super) const NO_BYTES_DIGEST: [u8; 16] =
    0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e_u128.to_be_bytes();

/// Reads a field from a packet.
type Get = for<'p> fn(&mut Seen<'p>) -> Option<Value<'p>>;
/// Formats a value as text.
type Show = fn(&mut Vec<u8>, &Value<'_>, &Seen<'_>);
/// Parses a value from text.
type Parse = fn(&[u8], &Draft<'_>) -> Option<Value<'static>>;
/// Writes a value into a packet.
type Put = fn(&mut Draft<'_>, &Value<'_>);

/// A field.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) size: Size,
    /// Within a record, fields with lower numbers are written into the packet first.
    pub(crate) order: u16,
    /// Whether the packet's IP header must have been parsed.
    pub(crate) of_ip: bool,
    pub(crate) get: Get,
    pub(crate) show: Show,
    pub(crate) parse: Parse,
    /// Fields without it can be written to dumps but not read from them.
    pub(crate) put: Option<Put>,
}

/// The order of the layers.
pub(crate) mod order {
    pub(in super::super) const ANNO: u16 = 100;
    pub(in super::super) const LINK: u16 = 200;
    pub(in super::super) const NET: u16 = 300;
    pub(in super::super) const TRANSPORT: u16 = 400;
    pub(in super::super) const PAYLOAD: u16 = 500;
}

impl Field {
    /// A decimal number of `size` bytes.
    pub(crate) const fn number(name: &'static str, size: usize, get: Get) -> Field {
        let size = Size::Number(size);
        let of_ip = true;
        Field { name, size, order: 0, of_ip, get, show: show_number, parse: no_text, put: None }
    }

    /// A field with its own format.
    pub(crate) const fn special(name: &'static str, size: Size, get: Get, show: Show) -> Field {
        Field { name, size, order: 0, of_ip: true, get, show, parse: no_text, put: None }
    }

    /// Sets how the field is written into a packet.
    pub(crate) const fn put(mut self, order: u16, parse: Parse, put: Put) -> Field {
        self.order = order;
        self.parse = parse;
        self.put = Some(put);
        self
    }

    /// Sets how the field is formatted as text.
    pub(crate) const fn shown(mut self, show: Show) -> Field {
        self.show = show;
        self
    }

    /// The field does not need the IP header.
    pub(crate) const fn outside_ip(mut self) -> Field {
        self.of_ip = false;
        self
    }

    /// Appends a value's binary form; a missing value is encoded as 0 or as empty.
    pub(crate) fn pack(&self, out: &mut Vec<u8>, value: Option<&Value<'_>>) {
        match (self.size, value) {
            (Size::Number(size), value) => {
                let number = match value {
                    Some(Value::Number(number)) => *number,
                    _ => 0,
                };
                let bytes = number.to_be_bytes();
                out.extend_from_slice(bytes.get(8usize.saturating_sub(size)..).unwrap_or_default());
            }
            (Size::Time, value) => {
                let time = time_of(value);
                out.extend_from_slice(&(time.sec() as u32).to_be_bytes());
                out.extend_from_slice(&time.usec().to_be_bytes());
            }
            (Size::NanoTime, value) => {
                let time = time_of(value);
                out.extend_from_slice(&time.nsec().to_be_bytes());
                out.extend_from_slice(&(time.sec() as u32).to_be_bytes());
            }
            (Size::Ether, Some(Value::Ether(address))) => out.extend_from_slice(address),
            (Size::Ether, _) => out.extend_from_slice(&[0; 6]),
            (Size::Counted, value) => {
                let bytes = value.map(Value::bytes).unwrap_or_default();
                let bytes = bytes.get(..255).unwrap_or(bytes);
                out.push(bytes.len() as u8);
                out.extend_from_slice(bytes);
            }
            (Size::Digest, Some(Value::Bytes(digest))) => out.extend_from_slice(digest),
            (Size::Digest, _) => out.extend_from_slice(&NO_BYTES_DIGEST),
            (Size::None, _) => {}
        }
    }

    /// The value at the start of a record, and the rest. `None` when the record is too short.
    pub(crate) fn unpack<'r>(&self, record: &'r [u8]) -> Option<(Value<'r>, &'r [u8])> {
        let word = |bytes: &[u8]| Some(u32::from_be_bytes(*bytes.first_chunk()?));
        match self.size {
            Size::Number(size) => {
                let (bytes, rest) = record.split_at_checked(size)?;
                let number = bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
                Some((Value::Number(number), rest))
            }
            Size::Time | Size::NanoTime => {
                let (bytes, rest) = record.split_at_checked(8)?;
                let (first, second) = (word(bytes)?, word(bytes.get(4..)?)?);
                let time = match self.size {
                    Size::Time => {
                        Timestamp::new(first.into(), 0) + Timestamp::from_micros(second.into())
                    }
                    _ => Timestamp::new(second.into(), first),
                };
                Some((Value::Time(time), rest))
            }
            Size::Ether => {
                let (bytes, rest) = record.split_first_chunk()?;
                Some((Value::Ether(*bytes), rest))
            }
            Size::Counted => {
                let (&length, rest) = record.split_first()?;
                let (bytes, rest) = rest.split_at_checked(length.into())?;
                Some((Value::Bytes(bytes.into()), rest))
            }
            Size::Digest => {
                let (bytes, rest) = record.split_at_checked(16)?;
                Some((Value::Bytes(bytes.into()), rest))
            }
            Size::None => None,
        }
    }
}

fn time_of(value: Option<&Value<'_>>) -> Timestamp {
    match value {
        Some(Value::Time(time)) => *time,
        _ => Timestamp::ZERO,
    }
}

/// Formats a number in decimal.
pub(crate) fn show_number(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    if let Value::Number(number) = value {
        append(out, format_args!("{number}"));
    }
}

/// Appends text.
pub(crate) fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}

/// Parses a number of up to 32 bits.
pub(crate) fn number(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    up_to(text, u32::MAX)
}

/// Parses a number of up to 8 bits.
pub(crate) fn byte(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    up_to(text, u8::MAX.into())
}

/// Parses a number of up to 16 bits.
pub(crate) fn half(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    up_to(text, u16::MAX.into())
}

/// Parses a number of up to 64 bits.
pub(crate) fn wide(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    text::number(text).map(Value::Number)
}

/// Parses a number with a maximum.
pub(crate) fn up_to(text: &[u8], most: u32) -> Option<Value<'static>> {
    text::number(text).filter(|&number| number <= most.into()).map(Value::Number)
}

/// For fields that cannot be parsed from text.
fn no_text(_: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    None
}
