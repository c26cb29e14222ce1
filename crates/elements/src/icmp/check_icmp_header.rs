//! CheckICMPHeader - validates ICMP headers: checksum and length
//!
//! # Synopsis
//! `CheckICMPHeader([keyword VERBOSE, DETAILS])`
//!
//! # Description
//! Checks that each packet is ICMP, that its ICMP checksum is correct, and that its length is valid for its type:
//! errors quote at least 28 bytes, timestamp messages have 20 bytes, information messages 8.
//!
//! Packets must be IP packets with a valid header and their network header set: use CheckIPHeader first.
//!
//! A message is printed for the first bad packet.
//!
//! # Arguments
//! - VERBOSE: whether to print a message for every bad packet. Keyword, default false.
//! - DETAILS: whether to provide the handler `drop_details`. Keyword, default false.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: valid packets. Output 1, push, optional: bad packets, unchanged.
//!
//! # Handlers
//! - `count` (read): number of valid packets.
//! - `drops` (read): number of bad packets, dropped or sent to output 1.
//! - `drop_details` (read): bad packets by fault. Each line has a count, a tab and the fault. Present only with
//!   DETAILS.
//!
//! # Drops
//! Without output 1:
//! - bad protocol field: the packet is not ICMP, or its network header is not set.
//! - bad length: the message is shorter than an ICMP header, or its length is not valid for its type.
//! - bad checksum: the ICMP checksum is wrong.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader
//!     -> CheckICMPHeader(VERBOSE true)
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, CheckTCPHeader, CheckUDPHeader, ICMPError

use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, icmp_type, protocol};
use millrace_core::{Class, Packet, checksum, register};

use super::type_and_code::is_error;
use crate::tcpudp::transport_check::{CheckClass, Fault, TransportCheck};

/// The class; its manual is at the top of the file.
pub struct CheckIcmpHeader;

register!(TransportCheck<CheckIcmpHeader>, "check_icmp_header.rs");

impl CheckClass for CheckIcmpHeader {
    const CLASS: Class = Class::new("CheckICMPHeader", "1/1-2", "a/ah");
    const PROTOCOL: u8 = protocol::ICMP;
    const NAME: &'static str = "ICMP";
    const HAS_CHECKSUM_ARGUMENT: bool = false;

    fn check(_ip: &Ipv4Header, packet: &Packet, _: bool) -> Result<(), Fault> {
        let message = packet.transport_data().unwrap_or_default();
        let (icmp, rest) = IcmpHeader::view(message).ok_or(Fault::Length)?;
        let right_length = match icmp.kind {
            kind if is_error(kind) => rest.len() >= LEAST_QUOTED,
            icmp_type::TIMESTAMP_REQUEST | icmp_type::TIMESTAMP_REPLY => rest.len() == TIMESTAMPS,
            icmp_type::INFORMATION_REQUEST | icmp_type::INFORMATION_REPLY => rest.is_empty(),
            _ => true,
        };
        if !right_length {
            return Err(Fault::Length);
        }
        if !checksum::verify(message) {
            return Err(Fault::Checksum);
        }
        Ok(())
    }
}

/// The least that an error must quote: an IP header and eight more bytes (RFC 792).
const LEAST_QUOTED: usize = 28;

/// Bytes of three timestamps.
const TIMESTAMPS: usize = 12;

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("CheckICMPHeader", 1);
        withstands("CheckICMPHeader(DETAILS true)", 2);
    }
}
