//! IPsecESPGCMEncap - encrypts packets into ESP with AES-GCM
//!
//! # Synopsis
//! `IPsecESPGCMEncap(SPI, KEY [, keywords NEXT_HEADER, SEQUENCE])`
//!
//! # Description
//! Makes each packet the payload of an ESP packet (RFC 4303), encrypted and authenticated with AES-GCM and a 16-byte
//! tag (RFC 4106), as any IPsec gateway can read. Put an IPEncap with protocol 50, or an IP6Encap, downstream. Sequence
//! numbers and initialization vectors count up by one. After the last sequence number, all packets are dropped: the
//! tunnel needs a new key.
//!
//! Never use a key for two tunnels, or again after a restart: initialization vectors would repeat, and the encryption
//! would be broken. SEQUENCE lets a program continue where an earlier one stopped.
//!
//! # Arguments
//! - SPI: the security parameters index, above 255 (RFC 4303, 2.1). Positional, mandatory.
//! - KEY: 20 or 36 bytes: a key of AES-128 or AES-256 and 4 bytes of salt (RFC 4106, 8.1). Positional, mandatory.
//!   `\<...>` gives them in hexadecimal.
//! - NEXT_HEADER: what the packets are, an IP protocol by number or name. Keyword; default: 4 or 41 if they begin as
//!   IPv4 or IPv6 does, 59 (nothing) otherwise.
//! - SEQUENCE: the first sequence number, at least 1. Keyword, default 1.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `sequence` (read): the next sequence number.
//!
//! # Drops
//! - limited: there are no more sequence numbers.
//! - too big: the packet is longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.0.2, 53)
//!     -> IPsecESPGCMEncap(4096, \<000102030405060708090a0b0c0d0e0f 10111213>)
//!     -> IPEncap(esp, 192.0.2.1, 192.0.2.2)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPsecESPGCMDecap, IPEncap, IPsecESPEncap

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::{IpProtocol, Kind};
use millrace_core::headers::protocol;
use millrace_core::{
    Class, Element, Failed, Handlers, Init, Moment, Packet, PerPacket, Reason, Setup, View, Way,
    register,
};

use super::esp;
use super::esp::gcm::{Gcm, read_key};

/// The element; its manual is at the top of the file.
pub struct IpsecEspGcmEncap {
    spi: u32,
    gcm: Gcm,
    next_header: Option<u8>,
    /// The next sequence number.
    sequence: AtomicU64,
}

register!(IpsecEspGcmEncap, "ipsec_esp_gcm_encap.rs");

/// The payload's length is a multiple of this (RFC 4303, 2.4).
const UNIT: usize = 4;

impl Element for IpsecEspGcmEncap {
    const CLASS: Class = Class::new("IPsecESPGCMEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let spi = args.in_range("SPI", Kind::Mandatory, 256..=u32::MAX);
        let gcm = read_key(args);
        let next_header: Option<IpProtocol> = args.optional_keyword("NEXT_HEADER");
        let sequence = args.in_range("SEQUENCE", Kind::Keyword, 1..=u32::MAX).unwrap_or(1);
        args.complete()?;
        Ok(Self {
            spi: spi.unwrap_or_default(),
            gcm: gcm.ok_or(Failed)?,
            next_header: next_header.map(|IpProtocol(number)| number),
            sequence: AtomicU64::new(sequence.into()),
        })
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        let next = old.sequence.load(Relaxed);
        // A sequence number is the nonce, too: under one key, none may come twice (RFC 4106, 2 and 3.1). An old
        // association whose numbers are used up does not use up those of another one.
        if self.spi == old.spi || next <= u64::from(u32::MAX) {
            self.sequence.fetch_max(next, Relaxed);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("sequence", |element, _| element.sequence.load(Relaxed));
    }
}

impl PerPacket for IpsecEspGcmEncap {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::on_or_drop(packet.with_packet(|packet| self.wrap(packet)))
    }
}

impl IpsecEspGcmEncap {
    fn wrap(&self, packet: &mut Packet) -> Result<(), Reason> {
        if packet.len() > usize::from(u16::MAX) {
            return Err(Reason::TooBig);
        }
        // This counter takes centuries to wrap.
        let count = self.sequence.fetch_add(1, Relaxed);
        let sequence = u32::try_from(count).map_err(|_| Reason::Limited)?;
        let front = esp::front(self.spi, sequence, count.to_be_bytes());
        let next_header = self.next_header.unwrap_or_else(|| kind_of(packet.data()));
        packet.push_back(&esp::trailer(packet.len(), UNIT, next_header));
        let tag = self.gcm.seal(&front, packet.data_mut()).ok_or(Reason::TooBig)?;
        packet.push_back(&tag);
        packet.push_front(&front);
        Ok(())
    }
}

/// The protocol of a packet, from its first four bits.
fn kind_of(bytes: &[u8]) -> u8 {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => protocol::IPIP,
        Some(6) => protocol::IPV6,
        _ => protocol::NO_NEXT_HEADER,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::Reason;
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::withstands;

    const KEY: &str = r"\<4c80cdefbb5d10da906ac73c3613a634 2e443b68>";
    const LONG: &str =
        r"\<abbccddef00112233445566778899aabab1bcddef00112233445566778899aab 11223344>";

    proptest! {
        /// Decap undoes encap, and rejects packets with a changed bit and replayed packets.
        #[test]
        fn decap_undoes_encap(
            data in prop::collection::vec(any::<u8>(), 0..300),
            long: bool,
            bit: prop::sample::Index,
        ) {
            let key = if long { LONG } else { KEY };
            let encap = RefCell::new(Rig::new(&format!("IPsecESPGCMEncap(4096, {key})"), 1, 1).unwrap());
            let decap = RefCell::new(Rig::new(&format!("IPsecESPGCMDecap(4096, {key})"), 1, 1).unwrap());
            let sealed = encap.borrow_mut().push(0, &[&data]).remove(0).remove(0);
            prop_assert_eq!(sealed.len() % 4, 0);
            let mut forged = sealed.clone();
            let bit = bit.index(sealed.len() * 8);
            forged[bit / 8] ^= 1 << (bit % 8);
            let out = decap.borrow_mut().push(0, &[forged, sealed.clone(), sealed]).remove(0);
            prop_assert_eq!(out, vec![data]);
            let drops = decap.borrow_mut().stats().drops;
            prop_assert_eq!(drops.len(), 2);
            prop_assert!(drops.contains(&(Reason::Replayed, 1)));
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for wrong in [
            "255, \\<4c80cdefbb5d10da906ac73c3613a6342e443b68>",
            "256, \\<4c80cdefbb5d10da906ac73c3613a6342e443b>",
            "256",
            "256, \\<4c80cdefbb5d10da906ac73c3613a6342e443b68>, SEQUENCE 0",
        ] {
            assert!(Rig::new(&format!("IPsecESPGCMEncap({wrong})"), 1, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sequence_numbers_do_not_wrap() {
        let mut rig =
            Rig::new(&format!("IPsecESPGCMEncap(4096, {KEY}, SEQUENCE 0xffffffff)"), 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0].len(), 1);
        assert_eq!(rig.stats().drops, [(Reason::Limited, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands(&format!("IPsecESPGCMEncap(4096, {KEY})"), 1);
        withstands(&format!("IPsecESPGCMDecap(4096, {KEY})"), 2);
    }
}
