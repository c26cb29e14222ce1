//! IPsecESPEncap - wraps packets in ESP without encrypting them
//!
//! # Synopsis
//! `IPsecESPEncap([SPI])`
//!
//! # Description
//! Makes each packet the payload of an ESP packet (RFC 4303) that is not encrypted yet. Prepends the security
//! parameters index, a sequence number and an initialization vector of eight random bytes. Appends padding to a
//! multiple of 8 bytes, the padding length, and as next header the protocol of the packet's IP header (0 without an IP
//! header).
//!
//! The index is the packet's IPSEC_SPI annotation. The sequence number comes from the security association that the
//! packet's IPSEC_SA_DATA_REFERENCE annotation names. RadixIPsecLookup sets both annotations.
//!
//! # Arguments
//! - SPI: accepted without effect: the index is the packet's IPSEC_SPI annotation. Click's manual names it, and Click
//!   ignores it too. Positional.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: no annotation names a security association.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.0.2, 53)
//!     -> r :: RadixIPsecLookup(10.1.0.0/16 192.0.2.2 1 234 ABCDEFFF001DEFD2 112233EE556677EE 300 64);
//! r[0] -> Discard;
//! r[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard;
//! ```
//!
//! # See also
//! IPsecESPUnencap, RadixIPsecLookup, IPsecAES, IPsecAuthHMACSHA1, IPsecEncap, IPsecESPGCMEncap

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use super::esp;
use super::esp::association::Association;

/// The element; its manual is at the top of the file.
pub struct IpsecEspEncap;

register!(IpsecEspEncap, "ipsec_esp_encap.rs");

/// The payload's length is a multiple of this.
const UNIT: usize = 8;

impl Element for IpsecEspEncap {
    const CLASS: Class = Class::new("IPsecESPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.ignored::<u32>(
            "SPI",
            Kind::Positional,
            "the index is the packet's IPSEC_SPI annotation",
        );
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| {
            let Some(association) = Association::of(&packet) else {
                return cx.drop(packet, Reason::NoHeader);
            };
            let iv = cx.random().u64(..).to_ne_bytes();
            let front = esp::front(packet.packet_number(), association.next_sequence(), iv);
            let trailer = esp::trailer(packet.len(), UNIT, protocol_of(&packet));
            packet.push_front(&front);
            packet.push_back(&trailer);
            Some(packet)
        });
    }
}

/// The protocol as Click reads it: the byte at the protocol's offset in an IPv4 header.
fn protocol_of(packet: &Packet) -> u8 {
    packet.network_data().and_then(|header| header.get(9)).copied().unwrap_or(0)
}
