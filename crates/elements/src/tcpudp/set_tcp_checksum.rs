//! SetTCPChecksum - computes TCP checksums
//!
//! # Synopsis
//! `SetTCPChecksum([FIXOFF])`
//!
//! # Description
//! Computes the checksum of each TCP segment, over the length that its IP header gives, and stores it in the TCP
//! header. Packets must be TCP over IP and have their network header position set; the protocol field is not checked. A
//! message is printed for packets with bad lengths.
//!
//! # Arguments
//! - FIXOFF: whether to correct an impossible TCP header length: one below 20 bytes becomes 20, one beyond the segment
//!   becomes the segment's length. Positional, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - bad length: the IP datagram is too short for a TCP header, or exceeds the packet.
//! - fragment: the packet holds only a part of the segment.
//! - header not set: the header positions are not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<04d20050 00000001 00000000 50020400 00000000>, LIMIT 10)
//!     -> IPEncap(tcp, 1.0.0.1, 2.0.0.2)
//!     -> SetTCPChecksum
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckTCPHeader, SetIPChecksum, SetUDPChecksum

use millrace_core::headers::{Header, Ipv4Header, TcpHeader};
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use crate::ip::pseudo_header;

/// The element; its manual is at the top of the file.
pub struct SetTcpChecksum {
    fix_offset: bool,
}

register!(SetTcpChecksum, "set_tcp_checksum.rs");

impl Element for SetTcpChecksum {
    const CLASS: Class = Class::new("SetTCPChecksum", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let fix_offset = setup.args.positional("FIXOFF", false);
        setup.args.complete()?;
        Ok(Self { fix_offset })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| match self.set_checksum(&mut packet) {
            Ok(()) => Some(packet),
            Err(reason) => self.reject(cx, packet, reason),
        });
    }
}

impl SetTcpChecksum {
    fn set_checksum(&self, packet: &mut Packet) -> Result<(), Reason> {
        let ip = packet.network_data().and_then(Ipv4Header::view);
        let (ip, _) = ip.ok_or(Reason::NoHeader)?;
        if ip.is_fragment() {
            return Err(Reason::Fragment);
        }
        let len = usize::from(ip.total_len.get()).checked_sub(ip.header_len());
        let len = len.filter(|len| *len >= TcpHeader::LEN).ok_or(Reason::BadLength)?;
        // An IP datagram is at most 65,535 bytes long.
        let pseudo = pseudo_header(packet, len as u16);
        let bytes = packet.transport_data_mut().ok_or(Reason::NoHeader)?;
        let segment = bytes.get_mut(..len).ok_or(Reason::BadLength)?;
        if let Some((tcp, _)) = TcpHeader::view_mut(segment) {
            if self.fix_offset {
                fix_header_len(tcp, len);
            }
            tcp.checksum.set(0);
        }
        let sum = pseudo.add_bytes(segment);
        if let Some((tcp, _)) = TcpHeader::view_mut(segment) {
            tcp.checksum.set(sum.finish());
        }
        Ok(())
    }

    #[cold]
    fn reject(&self, cx: &mut Context, packet: Packet, reason: Reason) -> Option<Packet> {
        if reason == Reason::BadLength {
            cx.router().chatter("SetTCPChecksum: bad lengths");
        }
        cx.drop(packet, reason)
    }
}

/// Corrects the header length of a segment of `len` bytes.
fn fix_header_len(tcp: &mut TcpHeader, len: usize) {
    let right = tcp.header_len().clamp(TcpHeader::LEN, len);
    // At most 60 bytes: the length is that of the field or less.
    tcp.data_offset = ((right / 4) as u8) << 4 | tcp.data_offset & 0xf;
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, has_right_transport_checksum, withstands};

    /// A segment whose TCP checksum is wrong.
    fn blank(payload: &[u8]) -> Datagram {
        let mut datagram = Datagram::tcp(payload);
        datagram.payload[16..18].copy_from_slice(&[0xaa, 0xbb]);
        datagram
    }

    fn summed(element: &str, packet: Packet) -> Vec<u8> {
        let out = Rig::new(element, 1, 1).unwrap().push_packets(0, vec![packet]);
        out[0][0].data().to_vec()
    }

    #[test]
    fn padding_does_not_count() {
        let mut packet = blank(b"odd").packet();
        packet.push_back(&[9; 7]);
        let out = summed("SetTCPChecksum", packet);
        assert_eq!(out[..out.len() - 7], Datagram::tcp(b"odd").bytes());
    }

    #[test]
    fn fixoff_corrects_header_lengths() {
        for (length, payload, corrected) in
            [(0x40, &b""[..], 0x50), (0xf1, b"1234567", 0x61), (0x60, b"1234567", 0x60)]
        {
            let mut datagram = blank(payload);
            datagram.payload[12] = length;
            let out = summed("SetTCPChecksum(true)", datagram.packet());
            assert_eq!(out[32], corrected);
            assert!(has_right_transport_checksum(&out));
            let out = summed("SetTCPChecksum", datagram.packet());
            assert_eq!(out[32], length);
            assert!(has_right_transport_checksum(&out));
        }
    }

    #[test]
    fn packets_without_a_whole_segment_are_dropped() {
        let fragment = Datagram { fragment_offset: 1, ..blank(b"data") };
        let mut cut = blank(b"data").packet();
        cut.truncate(43);
        let short = Datagram { payload: vec![0; 19], ..Datagram::of(6) };
        let mut unmarked = blank(b"data").packet();
        unmarked.clear_network_header();
        let mut rig = Rig::new("SetTCPChecksum", 1, 1).unwrap();
        rig.push_packets(0, vec![fragment.packet(), cut, short.packet(), unmarked]);
        assert_eq!(
            rig.stats().drops,
            [(Reason::BadLength, 2), (Reason::Fragment, 1), (Reason::NoHeader, 1)]
        );
    }

    proptest! {
        #[test]
        fn the_checksum_agrees_with_etherparse(
            data in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let out = summed("SetTCPChecksum", blank(&data).packet());
            prop_assert_eq!(out, Datagram::tcp(&data).bytes());
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("SetTCPChecksum", 1);
        withstands("SetTCPChecksum(true)", 1);
    }
}
