//! The UDP header's length field.

use millrace_core::headers::protocol;

use super::field::{Field, Value, number, order::TRANSPORT};
use super::seen::u16_at;

pub(super) const FIELDS: &[Field] =
    &[Field::number("udp_len", 4, |seen| Some(Value::Number(u16_at(seen.udp(6)?, 4)))).put(
        TRANSPORT,
        number,
        |draft, value| {
            let Some(at) = draft.ip(None).and_then(|_| draft.transport_header()) else { return };
            if matches!(draft.ip_protocol(), 0 | protocol::UDP | protocol::UDP_LITE) {
                draft.reach(at, 8);
                draft.set(at + 4, &(value.number() as u16).to_be_bytes());
            }
        },
    )];
