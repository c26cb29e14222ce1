//! A packet's annotations in words.

use millrace_core::memory::annotations::{self, ANNOTATION_LEN};

/// Annotations that are shown if they are not 0. Others lie in the same bytes.
const SHOWN: [&str; 9] = [
    "PAINT",
    "ICMP_PARAMPROB",
    "CONNECTION",
    "FIX_IP_SRC",
    "VLAN_TCI",
    "AGGREGATE",
    "EXTRA_LENGTH",
    "PACKET_NUMBER",
    "SEQUENCE_NUMBER",
];

/// The annotations that are not 0, by name; an address for the next hop.
pub(super) fn annotations(area: &[u8; ANNOTATION_LEN]) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    let hop = &area[annotations::DST_IP..][..16];
    match *hop {
        [0, 0, 0, 0, ref rest @ ..] if rest.iter().all(|&byte| byte == 0) => {}
        [a, b, c, d, ref rest @ ..] if rest.iter().all(|&byte| byte == 0) => {
            told.push(("DST_IP", format!("{a}.{b}.{c}.{d}")));
        }
        _ => {
            if let Some(bytes) = hop.first_chunk::<16>() {
                told.push(("DST_IP6", std::net::Ipv6Addr::from(*bytes).to_string()));
            }
        }
    }
    for info in SHOWN.iter().filter_map(|name| annotations::find(name)) {
        let bytes = area.get(info.offset..info.offset + info.size).unwrap_or_default();
        let value = match *bytes {
            [byte] => u64::from(byte),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => 0,
        };
        if value != 0 {
            told.push((info.name, value.to_string()));
        }
    }
    told
}
