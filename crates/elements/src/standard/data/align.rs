//! Align - aligns packet data in memory
//!
//! # Synopsis
//! `Align(MODULUS, OFFSET)`
//!
//! # Description
//! Ensures that the address of each packet's first byte, modulo MODULUS, equals OFFSET. Packets for which it does not
//! are moved within their buffer, or copied if the buffer is too small or shared. Their bytes, header positions and
//! annotations do not change.
//!
//! # Arguments
//! - MODULUS: 2, 4 or 8. Positional, mandatory.
//! - OFFSET: 0 to MODULUS - 1. Positional, mandatory.
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
//! InfiniteSource(LIMIT 10) -> Strip(14) -> Align(4, 0) -> Discard;
//! ```
//!
//! # See also
//! AlignmentInfo, Strip

use millrace_core::{
    Class, Element, Failed, Moment, Packet, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
#[derive(Clone, Copy)]
pub struct Align {
    modulus: usize,
    offset: usize,
}

register!(Align, "align.rs");

impl Element for Align {
    const CLASS: Class = Class::new("Align", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let modulus: u32 = setup.args.mandatory("MODULUS");
        let offset: i32 = setup.args.mandatory("OFFSET");
        setup.args.complete()?;
        if ![2, 4, 8].contains(&modulus) {
            setup.args.error("MODULUS", "MODULUS must be 2, 4, or 8");
            return Err(Failed);
        }
        match usize::try_from(offset) {
            Ok(offset) if offset < modulus as usize => {
                Ok(Self { modulus: modulus as usize, offset })
            }
            _ => {
                setup.args.error("OFFSET", "OFFSET must be smaller than MODULUS");
                Err(Failed)
            }
        }
    }
}

impl PerPacket for Align {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if self.distance(packet.data()) > 0 {
            packet.with_packet(|packet| self.shift(packet));
        }
        Way::ON
    }
}

impl Align {
    /// How many bytes the start of the packet must move forward.
    #[inline(always)]
    fn distance(self, data: &[u8]) -> usize {
        // Wrapping is correct because the modulus is a power of two.
        self.offset.wrapping_sub(data.as_ptr().addr()) % self.modulus
    }

    #[inline(never)]
    fn shift(self, packet: &mut Packet) {
        let (mac, network) = (packet.mac_header(), packet.network_header());
        let (transport, len) = (packet.transport_header(), packet.len());
        // This makes tailroom to move within. It can move the data, so the distance is computed afterwards.
        packet.append(self.modulus);
        packet.truncate(len);
        let distance = self.distance(packet.data());
        packet.append(distance);
        packet.data_mut().copy_within(..len, distance);
        if packet.strip(distance) {
            if let Some(mac) = mac {
                packet.set_mac_header(mac);
            }
            if let Some(network) = network {
                packet.set_network_header(network, 0);
                packet.clear_transport_header();
            }
            if let Some(transport) = transport {
                packet.set_transport_header(transport);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_are_aligned_and_otherwise_unchanged() {
        for modulus in [2, 4, 8] {
            for offset in 0..modulus {
                let mut rig = Rig::new(&format!("Align({modulus}, {offset})"), 1, 1).unwrap();
                for stripped in 0..9 {
                    let mut packet = Packet::from_bytes(b"123456789abcdefgh").unwrap();
                    packet.set_mac_header(0);
                    packet.set_network_header(9, 2);
                    assert!(packet.strip(stripped));
                    let shared = packet.share().unwrap();
                    for packet in [packet, shared] {
                        let before = (packet.mac_header(), packet.network_header());
                        let transport = packet.transport_header();
                        let packet = rig.push_packets(0, vec![packet])[0].remove(0);
                        assert_eq!(packet.data(), &b"123456789abcdefgh"[stripped..]);
                        assert_eq!(packet.data().as_ptr().addr() % modulus, offset);
                        assert_eq!((packet.mac_header(), packet.network_header()), before);
                        assert_eq!(packet.transport_header(), transport);
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_invalid_alignments() {
        for wrong in ["3, 0", "16, 0", "4, 4", "4, -1", "4", ""] {
            assert!(Rig::new(&format!("Align({wrong})"), 1, 1).is_err(), "{wrong}");
        }
    }
}
