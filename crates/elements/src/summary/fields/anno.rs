//! Annotation fields: times, counts, paint.

use millrace_core::Timestamp;

use super::draft::Draft;
use super::field::{Field, Size, Value, append, number, order::ANNO, show_number, wide};
use super::seen::Seen;
use super::text;

pub(super) const FIELDS: &[Field] = &[
    timestamp("timestamp", Size::Time),
    timestamp("ntimestamp", Size::NanoTime),
    Field::number("ts_sec", 4, |seen| {
        Some(Value::Number((seen.packet.timestamp().sec() as u32).into()))
    })
    .outside_ip()
    .put(ANNO, number, |draft, value| {
        draft.timestamp = Timestamp::new(value.number().into(), draft.timestamp.nsec());
    }),
    Field::number("ts_usec", 4, |seen| Some(Value::Number(seen.packet.timestamp().usec().into())))
        .outside_ip()
        .put(ANNO, number, |draft, value| {
            let micros = Timestamp::from_micros(value.number().into());
            draft.timestamp = Timestamp::from_secs(draft.timestamp.sec()) + micros;
        }),
    Field::number("ts_usec1", 8, |seen| {
        // Click writes the lower 32 bits first, and reads them last.
        Some(Value::Number((seen.packet.timestamp().as_micros() as u64).rotate_left(32)))
    })
    .outside_ip()
    .put(ANNO, wide, |draft, value| {
        if let Value::Number(micros) = *value {
            draft.timestamp = Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX));
        }
    }),
    first_timestamp("first_timestamp", Size::Time),
    first_timestamp("first_ntimestamp", Size::NanoTime),
    Field::number("count", 4, |seen| {
        Some(Value::Number(seen.packet.extra_packets().wrapping_add(1).into()))
    })
    .outside_ip()
    .put(ANNO, number, |draft, value| draft.extra_packets = value.number().saturating_sub(1)),
    paint("link", show_number),
    paint("paint", show_number),
    paint("direction", show_direction),
    Field::number("aggregate", 4, |seen| Some(Value::Number(seen.packet.aggregate().into())))
        .outside_ip()
        .put(ANNO, number, |draft, value| draft.aggregate = Some(value.number())),
    Field::number("wire_len", 4, |seen| Some(Value::Number(seen.packet.len() as u64)))
        .outside_ip()
        .put(ANNO, number, |draft, value| draft.wanted_len = value.number()),
    Field::number("thread", 4, |seen| Some(Value::Number(seen.thread as u64))).outside_ip(),
];

pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
];

const fn timestamp(name: &'static str, size: Size) -> Field {
    Field::special(name, size, |seen| Some(Value::Time(seen.packet.timestamp())), show_time)
        .outside_ip()
        .put(ANNO, parse_time, |draft, value| {
            if let Value::Time(time) = *value {
                draft.timestamp = time;
            }
        })
}

const fn first_timestamp(name: &'static str, size: Size) -> Field {
    Field::special(name, size, |seen| Some(Value::Time(seen.packet.first_timestamp())), show_time)
        .outside_ip()
        .put(ANNO, parse_time, |draft, value| {
            if let Value::Time(time) = *value {
                draft.first_timestamp = time;
            }
        })
}

const fn paint(name: &'static str, show: fn(&mut Vec<u8>, &Value<'_>, &Seen<'_>)) -> Field {
    Field::number(name, 1, |seen| Some(Value::Number(seen.packet.paint().into())))
        .outside_ip()
        .shown(show)
        .put(ANNO, parse_paint, |draft, value| draft.paint = value.number() as u8)
}

fn show_time(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    if let Value::Time(time) = value {
        append(out, format_args!("{time}"));
    }
}

fn parse_time(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    let time: Timestamp = std::str::from_utf8(text).ok()?.parse().ok()?;
    (time >= Timestamp::ZERO).then_some(Value::Time(time))
}

/// The directions of a flow are paint 0 and 1.
fn show_direction(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    match value.number() {
        0 => out.push(b'>'),
        1 => out.push(b'<'),
        paint => append(out, format_args!("{paint}")),
    }
}

fn parse_paint(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    match text {
        b">" => Some(Value::Number(0)),
        b"<" => Some(Value::Number(1)),
        _ => text::number(text).filter(|&n| n <= u32::MAX.into()).map(Value::Number),
    }
}
