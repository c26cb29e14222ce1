//! IPsecESPEncap - puts packets into ESP
//!
//! # Synopsis
//! `IPsecESPEncap()`
//!
//! # Description
//! Makes each packet the payload of an ESP packet (RFC 4303) that is not encrypted yet: in front of it come the
//! security parameters index, a sequence number and eight random bytes, the initialization vector; behind it
//! padding to a multiple of 8 bytes, its length, and as next header the protocol of the packet's IP header (0
//! without one).
//!
//! The index is the packet's IPSEC_SPI annotation, the sequence number comes from the security association that
//! its IPSEC_SA_DATA_REFERENCE annotation names. RadixIPsecLookup sets both.
//!
//! # Arguments
//! Click's manual names an SPI, which Click ignores, and so is any argument here.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: no annotation names an association.
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

use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use super::association::Association;
use super::esp;

/// The element; its manual is at the top of the file.
pub struct IpsecEspEncap;

register!(IpsecEspEncap, "ipsec_esp_encap.rs");

/// What the payload's length is a multiple of.
const UNIT: usize = 8;

impl Element for IpsecEspEncap {
    const CLASS: Class = Class::new("IPsecESPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        // As in Click, whatever is said here.
        let _ = setup.args.rest();
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

/// What Click takes for the protocol: the byte that is there in an IPv4 header.
fn protocol_of(packet: &Packet) -> u8 {
    packet.network_data().and_then(|header| header.get(9)).copied().unwrap_or(0)
}
