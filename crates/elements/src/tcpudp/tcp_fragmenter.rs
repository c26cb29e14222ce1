//! TCPFragmenter - splits large TCP packets into several smaller ones
//!
//! # Synopsis
//! `TCPFragmenter([keyword MTU])`
//!
//! # Description
//! Splits each TCP/IP packet of MTU bytes or more, counted from its IP header, into packets of at most MTU bytes, each
//! with a part of the data. Every part gets a copy of the headers, with its own length, sequence number, urgent pointer
//! and checksums. SYN and CWR stay in the first part only, FIN and PSH in the last one only, and URG in those that begin
//! before the end of the urgent data. Other packets pass unchanged, and so do packets whose headers alone fill the MTU.
//!
//! # Arguments
//! - MTU: maximum bytes of a packet from its IP header on, at least 1. Keyword, mandatory.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the packet's IP or TCP header is not known.
//! - bad length: the packet is too long, and its length fields contradict each other or the packet.
//! - no buffer: there was no memory for a part.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader -> CheckTCPHeader
//!     -> TCPFragmenter(MTU 1000)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPFragmenter, CheckTCPHeader

use millrace_core::headers::{Header, Ipv4Header, TcpHeader, tcp_flags};
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use crate::ip::{network_header, network_header_mut, pseudo_header};

/// The element; its manual is at the top of the file.
pub struct TcpFragmenter {
    mtu: usize,
}

register!(TcpFragmenter, "tcp_fragmenter.rs");

/// Where a packet can be cut.
struct Cut {
    /// Bytes before the TCP data.
    data_at: usize,
    /// Bytes of TCP data.
    data_len: usize,
    /// Maximum bytes of data in a part.
    most: usize,
}

impl Element for TcpFragmenter {
    const CLASS: Class = Class::new("TCPFragmenter", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let mtu: u16 = setup.args.mandatory_keyword("MTU");
        if mtu == 0 && !setup.args.has_errors() {
            setup.args.error("MTU", "MTU cannot be 0");
        }
        setup.args.complete()?;
        Ok(Self { mtu: mtu.into() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.cut(&packet) {
                Ok(None) => cx.push(0, packet),
                Ok(Some(cut)) => send_parts(cx, packet, &cut),
                Err(reason) => {
                    cx.drop(packet, reason);
                }
            }
        }
    }
}

impl TcpFragmenter {
    fn cut(&self, packet: &Packet) -> Result<Option<Cut>, Reason> {
        let ip = network_header(packet).ok_or(Reason::NoHeader)?;
        let (tcp, _) = packet.transport_data().and_then(TcpHeader::view).ok_or(Reason::NoHeader)?;
        let headers_len = ip.header_len() + tcp.header_len();
        let total_len = usize::from(ip.total_len.get());
        let most = self.mtu.saturating_sub(headers_len);
        let data_len = total_len.saturating_sub(headers_len);
        if most == 0 || data_len < most {
            return Ok(None);
        }
        let start = packet.transport_offset().ok_or(Reason::NoHeader)?;
        let data_at = start + tcp.header_len();
        let sound = tcp.header_len() >= TcpHeader::LEN
            && ip.header_len() >= Ipv4Header::LEN
            && packet.len() >= data_at + data_len;
        if sound { Ok(Some(Cut { data_at, data_len, most })) } else { Err(Reason::BadLength) }
    }
}

/// Sends a packet in parts.
fn send_parts(cx: &mut Context, packet: Packet, cut: &Cut) {
    for offset in (0..cut.data_len).step_by(cut.most) {
        let len = cut.most.min(cut.data_len - offset);
        cx.created(1);
        match part(&packet, cut, offset, len) {
            Some(part) => cx.push(0, part),
            None => cx.dropped(1, Reason::NoBuffer),
        }
    }
    cx.consumed(1);
}

/// The packet with `len` bytes of its data from `offset` on.
fn part(packet: &Packet, cut: &Cut, offset: usize, len: usize) -> Option<Packet> {
    let data_at = cut.data_at;
    let mut part = packet.copy()?;
    let data = part.data_mut();
    let from = data_at + offset;
    if from + len <= data.len() {
        data.copy_within(from..from + len, data_at);
    }
    part.truncate(data_at + len);
    let total_len = part.network_data()?.len() as u16;
    network_header_mut(&mut part)?.total_len.set(total_len);
    Ipv4Header::fill_checksum(part.network_data_mut()?);
    let (tcp, _) = TcpHeader::view_mut(part.transport_data_mut()?)?;
    adapt(tcp, offset as u32, offset + len == cut.data_len);
    tcp.checksum.set(0);
    let segment = part.transport_data()?;
    let sum = pseudo_header(&part, segment.len() as u16).add_bytes(segment).finish();
    TcpHeader::view_mut(part.transport_data_mut()?)?.0.checksum.set(sum);
    Some(part)
}

/// Adapts the header of a part that begins with byte `offset` of the data.
fn adapt(tcp: &mut TcpHeader, offset: u32, is_last: bool) {
    let before = tcp.flags;
    if offset > 0 {
        tcp.flags &= !(tcp_flags::SYN | tcp_flags::CWR);
        let urgent = u32::from(tcp.urgent.get()).saturating_sub(offset) as u16;
        tcp.urgent.set(urgent);
        if urgent == 0 {
            tcp.flags &= !tcp_flags::URG;
        }
        // SYN takes the number before the first byte.
        let syn = u32::from(before & tcp_flags::SYN != 0);
        tcp.sequence.set(tcp.sequence.get().wrapping_add(offset).wrapping_add(syn));
    }
    if !is_last {
        tcp.flags &= !(tcp_flags::FIN | tcp_flags::PSH);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, has_right_transport_checksum, read, withstands};

    proptest! {
        /// The parts are valid, none is too long, and together they hold the packet's data.
        #[test]
        fn the_parts_hold_all_of_the_data(mtu in 41u16..200, data in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut rig = Rig::new(&format!("TCPFragmenter(MTU {mtu})"), 1, 1).unwrap();
            let out = rig.push_packets(0, vec![Datagram::tcp(&data).packet()]).remove(0);
            let mut joined = Vec::new();
            for part in &out {
                prop_assert!(has_right_transport_checksum(part.data()));
                prop_assert!(part.len() <= usize::from(mtu));
                let (_, segment) = read(part.data());
                let (tcp, data) = etherparse::TcpHeader::from_slice(&segment).unwrap();
                // The datagrams of the tests begin with sequence number 1.
                prop_assert_eq!(tcp.sequence_number as usize, 1 + joined.len());
                joined.extend_from_slice(data);
            }
            prop_assert_eq!(joined, data);
            prop_assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("TCPFragmenter(MTU 60)", 1);
    }
}
