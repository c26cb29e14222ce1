//! SetUDPChecksum - computes UDP checksums
//!
//! # Synopsis
//! `SetUDPChecksum`
//!
//! # Description
//! Computes the checksum of each UDP datagram, over the length in its UDP header, and stores it in the UDP header.
//! Packets must be UDP over IP and have their network header position set; the protocol field is not checked.
//!
//! A fragment, or a packet shorter than its UDP length, goes to output 1. Without output 1 it is dropped, and a message
//! is printed for the first one.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: UDP datagrams. Output 1, push, optional: packets whose checksum cannot be
//! computed.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! Without output 1:
//! - fragment: the packet holds only a part of the UDP datagram.
//! - truncated: the packet ends before its UDP header does.
//! - bad length: the UDP length is less than 8 bytes, or exceeds the packet.
//! - header not set: the header positions are not set.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, CHECKSUM false)
//!     -> SetUDPChecksum
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckUDPHeader, SetIPChecksum, SetTCPChecksum, UDPIPEncap

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv4Header, UdpHeader};
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use crate::ip::pseudo_header;

/// The element; its manual is at the top of the file.
pub struct SetUdpChecksum {
    name: String,
    reported: AtomicBool,
}

register!(SetUdpChecksum, "set_udp_checksum.rs");

impl Element for SetUdpChecksum {
    const CLASS: Class = Class::new("SetUDPChecksum", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { name: setup.name().to_owned(), reported: AtomicBool::new(false) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| match set_checksum(&mut packet) {
            Ok(()) => Some(packet),
            Err(reason) => self.reject(cx, packet, reason),
        });
    }
}

impl SetUdpChecksum {
    #[cold]
    fn reject(&self, cx: &mut Context, packet: Packet, reason: Reason) -> Option<Packet> {
        if !cx.is_connected(1) && !self.reported.swap(true, Relaxed) {
            let message = format!("{} :: SetUDPChecksum: fragment or short packet", self.name);
            cx.router().chatter(&message);
        }
        cx.push_or_drop(1, packet, reason);
        None
    }
}

fn set_checksum(packet: &mut Packet) -> Result<(), Reason> {
    let ip = packet.network_data().and_then(Ipv4Header::view);
    let (ip, _) = ip.ok_or(Reason::NoHeader)?;
    if ip.is_fragment() {
        return Err(Reason::Fragment);
    }
    let bytes = packet.transport_data().ok_or(Reason::NoHeader)?;
    let (udp, _) = UdpHeader::view(bytes).ok_or(Reason::Truncated)?;
    let len = udp.len.get();
    if usize::from(len) < UdpHeader::LEN || usize::from(len) > bytes.len() {
        return Err(Reason::BadLength);
    }
    let pseudo = pseudo_header(packet, len);
    let bytes = packet.transport_data_mut().ok_or(Reason::NoHeader)?;
    if let Some((udp, _)) = UdpHeader::view_mut(bytes) {
        udp.checksum.set(0);
    }
    let datagram = bytes.get(..usize::from(len)).unwrap_or_default();
    let sum = pseudo.add_bytes(datagram);
    if let Some((udp, _)) = UdpHeader::view_mut(bytes) {
        udp.checksum.set(sum.finish_udp());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, has_right_transport_checksum, withstands};

    /// A datagram whose UDP checksum is wrong.
    fn blank(payload: &[u8]) -> Datagram {
        let mut datagram = Datagram::udp(payload);
        datagram.payload[6..8].copy_from_slice(&[0xaa, 0xbb]);
        datagram
    }

    #[test]
    fn padding_does_not_count() {
        let mut packet = blank(b"odd").packet();
        packet.push_back(&[9; 7]);
        let mut rig = Rig::new("SetUDPChecksum", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![packet]);
        let len = out[0][0].len() - 7;
        assert_eq!(out[0][0].data()[..len], Datagram::udp(b"odd").bytes());
    }

    fn wrong() -> Vec<Packet> {
        let fragment = Datagram { more_fragments: true, ..blank(b"data") }.packet();
        let mut cut = blank(b"data").packet();
        cut.truncate(27);
        let mut long = blank(b"data");
        long.payload[5] += 1;
        let mut short = blank(b"data");
        short.payload[5] = 7;
        let mut unmarked = blank(b"data").packet();
        unmarked.clear_network_header();
        vec![fragment, cut, long.packet(), short.packet(), unmarked]
    }

    #[test]
    fn packets_without_a_whole_datagram_go_to_output_1_unchanged() {
        let mut rig = Rig::new("SetUDPChecksum", 1, 2).unwrap();
        let out = rig.push_packets(0, wrong());
        assert_eq!((out[0].len(), out[1].len()), (0, 5));
        for (before, after) in wrong().iter().zip(&out[1]) {
            assert_eq!(before.data(), after.data());
        }
        let mut rig = Rig::new("SetUDPChecksum", 1, 1).unwrap();
        rig.push_packets(0, wrong());
        assert_eq!(
            rig.stats().drops,
            [
                (Reason::Truncated, 1),
                (Reason::BadLength, 2),
                (Reason::Fragment, 1),
                (Reason::NoHeader, 1)
            ]
        );
    }

    proptest! {
        #[test]
        fn the_checksum_agrees_with_etherparse(
            data in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut rig = Rig::new("SetUDPChecksum", 1, 1).unwrap();
            let out = rig.push_packets(0, vec![blank(&data).packet()]);
            prop_assert_eq!(out[0][0].data(), Datagram::udp(&data).bytes());
            prop_assert!(has_right_transport_checksum(out[0][0].data()));
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("SetUDPChecksum", 1);
        withstands("SetUDPChecksum", 2);
    }
}
