//! TruncateIPPayload - truncates the payload of IP packets to a given length
//!
//! # Synopsis
//! `TruncateIPPayload([LENGTH, TRANSPORT, keyword EXTRA_LENGTH])`
//!
//! # Description
//! Truncates each packet to LENGTH bytes after its headers: the IP header with options, and, if TRANSPORT is true, the
//! TCP header with options, the UDP header, or the fixed part of an ICMP header. Bytes before the IP header are kept.
//! If the packet's network header is not set, its first LENGTH bytes are kept. Length fields and checksums do not
//! change.
//!
//! # Arguments
//! - LENGTH: bytes of payload to keep, up to 65535. Positional, default 0.
//! - TRANSPORT: whether to keep the transport header too. Positional, default true.
//! - EXTRA_LENGTH: whether to add the number of bytes cut off to the extra length annotation. Keyword, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> CheckIPHeader(14)
//!     -> TruncateIPPayload(8)
//!     -> Discard;
//! ```
//!
//! # See also
//! Truncate, ToIPSummaryDump

use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, TcpHeader, UdpHeader, protocol};
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct TruncateIpPayload {
    len: u16,
    transport: bool,
    extra_length: bool,
}

register!(TruncateIpPayload, "truncate_ip_payload.rs");

impl Element for TruncateIpPayload {
    const CLASS: Class = Class::new("TruncateIPPayload", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let len = setup.args.positional("LENGTH", 0);
        let transport = setup.args.positional("TRANSPORT", true);
        let extra_length = setup.args.keyword("EXTRA_LENGTH", true);
        setup.args.complete()?;
        Ok(Self { len, transport, extra_length })
    }
}

impl PerPacket for TruncateIpPayload {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let keep = usize::from(self.len) + headers_len(packet, self.transport);
        let excess = packet.len().saturating_sub(keep);
        if self.extra_length && excess > 0 {
            let extra = packet.extra_length().wrapping_add(excess as u32);
            packet.set_extra_length(extra);
        }
        packet.truncate(keep);
        Way::ON
    }
}

/// The length of the headers and of the bytes before them.
fn headers_len(packet: &View, transport: bool) -> usize {
    let (Some(ip), Some(start)) = (packet.ipv4(), packet.network_offset()) else {
        return 0;
    };
    let ip_len = ip.header_len();
    if ip_len < Ipv4Header::LEN {
        return start + Ipv4Header::LEN;
    }
    let bytes = packet.transport_data().unwrap_or_default();
    let transport_len = match (transport, ip.protocol) {
        (true, protocol::TCP) => match bytes.get(12).map(|byte| usize::from(byte >> 4) * 4) {
            Some(len) if len >= TcpHeader::LEN => len,
            _ => TcpHeader::LEN,
        },
        (true, protocol::UDP) => UdpHeader::LEN,
        (true, protocol::ICMP) => {
            IcmpHeader::view(bytes).map_or(0, |(icmp, _)| IcmpHeader::len_of(icmp.kind))
        }
        _ => 0,
    };
    start + ip_len + transport_len
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("TruncateIPPayload(3)", 1);
    }
}
