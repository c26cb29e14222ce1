//! CheckUDPHeader - drops packets that lack a valid UDP header
//!
//! # Synopsis
//! `CheckUDPHeader([keyword VERBOSE, DETAILS, CHECKSUM])`
//!
//! # Description
//! Checks that each packet is UDP, and that the length and the checksum of its UDP header are correct. A checksum of 0
//! is accepted: it means that the sender computed none.
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
//! - bad protocol field: the packet is not UDP, or its network header position is not set.
//! - bad length: the UDP length is below 8 bytes or exceeds the packet, or the packet is too short for a UDP header.
//! - bad checksum: the checksum is wrong.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader
//!     -> CheckUDPHeader(VERBOSE true)
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, CheckTCPHeader, CheckICMPHeader, SetUDPChecksum

use millrace_core::headers::{Header, Ipv4Header, UdpHeader, protocol};
use millrace_core::{Class, Packet, register};

use super::transport_check::{CheckClass, Fault, TransportCheck};
use crate::ip::pseudo_header;

/// The class; its manual is at the top of the file.
pub struct CheckUdpHeader;

register!(TransportCheck<CheckUdpHeader>, "check_udp_header.rs");

impl CheckClass for CheckUdpHeader {
    const CLASS: Class = Class::new("CheckUDPHeader", "1/1-2", "a/ah");
    const PROTOCOL: u8 = protocol::UDP;
    const NAME: &'static str = "UDP";
    const SAYS_WHO: bool = false;

    fn check(_ip: &Ipv4Header, packet: &Packet, checksum: bool) -> Result<(), Fault> {
        let bytes = packet.transport_data().unwrap_or_default();
        let (udp, _) = UdpHeader::view(bytes).ok_or(Fault::Length)?;
        let datagram = bytes.get(..usize::from(udp.len.get())).ok_or(Fault::Length)?;
        if datagram.len() < UdpHeader::LEN {
            return Err(Fault::Length);
        }
        // 0 means that the sender computed none.
        if checksum && udp.checksum.get() != 0 {
            let sum = pseudo_header(packet, datagram.len() as u16).add_bytes(datagram);
            return if sum.is_right() { Ok(()) } else { Err(Fault::Checksum) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::{Datagram, finds_what_etherparse_finds, withstands};

    #[test]
    fn agrees_with_etherparse() {
        finds_what_etherparse_finds("CheckUDPHeader", Datagram::udp);
    }

    #[test]
    fn withstands_anything() {
        withstands("CheckUDPHeader", 1);
        withstands("CheckUDPHeader(DETAILS true, CHECKSUM false)", 2);
    }
}
