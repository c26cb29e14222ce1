//! CheckTCPHeader - drops packets that lack a valid TCP header
//!
//! # Synopsis
//! `CheckTCPHeader([keyword VERBOSE, DETAILS, CHECKSUM])`
//!
//! # Description
//! Checks that each packet is TCP, and that the lengths and the checksum of its TCP header are correct.
//!
//! Packets must be IP packets with a valid IP header and their network header position set: put a CheckIPHeader
//! upstream.
//!
//! A message is printed for the first bad packet.
//!
//! # Arguments
//! - VERBOSE: whether to print a message for every bad packet. Keyword, default false.
//! - DETAILS: whether there is a handler `drop_details`. Keyword, default false.
//! - CHECKSUM: whether to verify the checksum. Keyword, default true.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: valid packets. Output 1, push, optional: bad packets, unchanged.
//!
//! # Handlers
//! - `count` (read): valid packets.
//! - `drops` (read): bad packets, dropped or sent to output 1.
//! - `drop_details` (read): bad packets by fault: the count, a tab and the fault on each line; only with DETAILS.
//!
//! # Drops
//! Without output 1:
//! - bad protocol field: the packet is not TCP, or its network header position is not set.
//! - bad length: a length field is wrong or exceeds the packet, or the packet is too short for a TCP header.
//! - bad checksum: the checksum is wrong.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader
//!     -> CheckTCPHeader(VERBOSE true)
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, CheckUDPHeader, CheckICMPHeader, SetTCPChecksum

use millrace_core::headers::{Header, Ipv4Header, TcpHeader, protocol};
use millrace_core::{Class, Packet, register};

use super::transport_check::{CheckClass, Fault, TransportCheck};
use crate::ip::pseudo_header;

/// The class; its manual is at the top of the file.
pub struct CheckTcpHeader;

register!(TransportCheck<CheckTcpHeader>, "check_tcp_header.rs");

impl CheckClass for CheckTcpHeader {
    const CLASS: Class = Class::new("CheckTCPHeader", "1/1-2", "a/ah");
    const PROTOCOL: u8 = protocol::TCP;
    const NAME: &'static str = "TCP";

    fn check(ip: &Ipv4Header, packet: &Packet, checksum: bool) -> Result<(), Fault> {
        let bytes = packet.transport_data().unwrap_or_default();
        let len = usize::from(ip.total_len.get()).checked_sub(ip.header_len());
        let segment = len.and_then(|len| bytes.get(..len)).ok_or(Fault::Length)?;
        let (tcp, _) = TcpHeader::view(segment).ok_or(Fault::Length)?;
        if !(TcpHeader::LEN..=segment.len()).contains(&tcp.header_len()) {
            return Err(Fault::Length);
        }
        if checksum && !pseudo_header(packet, segment.len() as u16).add_bytes(segment).is_right() {
            return Err(Fault::Checksum);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::{Datagram, finds_what_etherparse_finds, withstands};

    #[test]
    fn agrees_with_etherparse() {
        finds_what_etherparse_finds("CheckTCPHeader", Datagram::tcp);
    }

    #[test]
    fn withstands_anything() {
        withstands("CheckTCPHeader", 1);
        withstands("CheckTCPHeader(DETAILS true, CHECKSUM false)", 2);
    }
}
