//! IPsecESPGCMDecap - decrypts and authenticates ESP packets with AES-GCM
//!
//! # Synopsis
//! `IPsecESPGCMDecap(SPI, KEY [, keyword WINDOW])`
//!
//! # Description
//! Extracts packets from ESP packets that were encrypted and authenticated with AES-GCM (RFC 4106), by IPsecESPGCMEncap
//! or any IPsec gateway. Packets must start with the ESP header, so put a StripIPHeader upstream.
//!
//! Packets that are not authentic are rejected. Each sequence number is accepted once, and only if it is not too far
//! below the highest number so far (RFC 4303, 3.4.3).
//!
//! # Arguments
//! - SPI: the security parameters index, above 255. Positional, mandatory.
//! - KEY: 20 or 36 bytes: a key of AES-128 or AES-256 and 4 bytes of salt. Positional, mandatory.
//! - WINDOW: how many sequence numbers, from the highest one down, are still accepted: 1 to 128. Keyword, default 64.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: the packets inside. Output 1, push, optional: rejected packets, unchanged
//! (but decrypted if only the padding is wrong).
//!
//! # Handlers
//! - `drops` (read): rejected packets, dropped or sent to output 1.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is too short.
//! - no match: another SPI.
//! - not authentic: the tag is wrong.
//! - expired: the sequence number is too old, or 0.
//! - replayed: the sequence number was already received.
//! - bad header length: the padding is wrong.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IPsecESPGCMEncap(4096, \<000102030405060708090a0b0c0d0e0f 10111213>)
//!     -> IPsecESPGCMDecap(4096, \<000102030405060708090a0b0c0d0e0f 10111213>)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPsecESPGCMEncap, StripIPHeader, IPsecESPUnencap

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Handlers, Init, Lock, Moment, Packet, PerPacket, Reason, Setup, View,
    Way, register,
};

use super::esp;
use super::esp::gcm::{Gcm, TAG_LEN, read_key};
use super::esp::replay::ReplayWindow;

/// The element; its manual is at the top of the file.
pub struct IpsecEspGcmDecap {
    spi: u32,
    gcm: Gcm,
    window: Lock<ReplayWindow>,
    drops: AtomicU64,
}

register!(IpsecEspGcmDecap, "ipsec_esp_gcm_decap.rs");

impl Element for IpsecEspGcmDecap {
    const CLASS: Class = Class::new("IPsecESPGCMDecap", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let spi = args.in_range("SPI", Kind::Mandatory, 256..=u32::MAX);
        let gcm = read_key(args);
        let window = args.in_range("WINDOW", Kind::Keyword, 1..=ReplayWindow::MOST).unwrap_or(64);
        args.complete()?;
        Ok(Self {
            spi: spi.unwrap_or_default(),
            gcm: gcm.ok_or(Failed)?,
            window: Lock::new(ReplayWindow::new(window, 0)),
            drops: AtomicU64::new(0),
        })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        // For the same tunnel, numbers that were already received must stay rejected.
        if self.spi == old.spi {
            let mut window = *old.window();
            let mut own = self.window();
            window.resize(own.size());
            *own = window;
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.load(Relaxed));
    }
}

impl PerPacket for IpsecEspGcmDecap {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.with_packet(|packet| self.unwrap(packet)) {
            Ok(()) => Way::ON,
            Err(reason) => {
                self.drops.fetch_add(1, Relaxed);
                Way::output_or_drop(1, reason)
            }
        }
    }
}

impl IpsecEspGcmDecap {
    fn unwrap(&self, packet: &mut Packet) -> Result<(), Reason> {
        let (spi, sequence) = esp::index_and_sequence(packet.data()).ok_or(Reason::Truncated)?;
        if spi != self.spi {
            return Err(Reason::NoMatch);
        }
        // Reject replayed packets before the cost of decryption.
        self.window().check(sequence)?;
        let (front, behind) = packet
            .data_mut()
            .split_first_chunk_mut::<{ esp::FRONT_LEN }>()
            .ok_or(Reason::Truncated)?;
        let (payload, tag) = behind.split_last_chunk_mut::<TAG_LEN>().ok_or(Reason::Truncated)?;
        if !self.gcm.open(front, payload, *tag) {
            return Err(Reason::NotAuthentic);
        }
        let trailer = esp::trailer_of(payload);
        self.window().take(sequence)?;
        let (trailer_len, _) = trailer.map_err(|_| Reason::BadHeaderLength)?;
        if packet.strip(esp::FRONT_LEN) && packet.trim(TAG_LEN + trailer_len) {
            Ok(())
        } else {
            Err(Reason::Truncated)
        }
    }

    fn window(&self) -> MutexGuard<'_, ReplayWindow> {
        self.window.lock()
    }
}
