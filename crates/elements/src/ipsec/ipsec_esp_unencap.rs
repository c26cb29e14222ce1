//! IPsecESPUnencap - removes ESP headers and padding, and drops replayed packets
//!
//! # Synopsis
//! `IPsecESPUnencap()`
//!
//! # Description
//! Removes what IPsecESPEncap added to a packet: 16 bytes at the front, and the padding with its length at the end. The
//! packet must already be decrypted and its digest checked.
//!
//! Each sequence number is accepted once, and only if it is not too far below the highest number so far. The size of
//! this window is that of the security association, which the packet's IPSEC_SA_DATA_REFERENCE annotation names (at
//! most 128). Click resets its window when the first number arrives again, and so accepts every packet a second time;
//! this element does not.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: no annotation names a security association.
//! - truncated: the packet is too short for ESP.
//! - expired: the sequence number is too old, or 0.
//! - replayed: the sequence number was already received.
//! - bad header length, bad protocol field: the padding length, or the padding itself, is wrong.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IPEncap(esp, 192.0.2.1, 192.0.2.2)
//!     -> r :: RadixIPsecLookup(192.0.2.2 0, 10.1.0.0/16 192.0.2.1 1 234 ABCDEFFF001DEFD2 112233EE556677EE 300 64);
//! r[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> Discard;
//! r[1] -> Discard;
//! ```
//!
//! # See also
//! IPsecESPEncap, RadixIPsecLookup, IPsecESPGCMDecap

use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use super::esp::association::Association;
use super::esp::{self, BadPadding};

/// The element; its manual is at the top of the file.
pub struct IpsecEspUnencap;

register!(IpsecEspUnencap, "ipsec_esp_unencap.rs");

impl Element for IpsecEspUnencap {
    const CLASS: Class = Class::new("IPsecESPUnencap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| match unwrap(&mut packet) {
            Ok(()) => Some(packet),
            Err((reason, message)) => {
                if !message.is_empty() {
                    cx.router().chatter(message);
                }
                cx.drop(packet, reason)
            }
        });
    }
}

/// Removes ESP from a packet.
///
/// # Errors
/// The reason that this fails, and Click's message for it, if it has one.
fn unwrap(packet: &mut Packet) -> Result<(), (Reason, &'static str)> {
    let association = Association::of(packet)
        .ok_or((Reason::NoHeader, "Null reference to Security Association Table"))?;
    let (_, sequence) = esp::index_and_sequence(packet.data()).ok_or((Reason::Truncated, ""))?;
    association.state().window.take(sequence).map_err(|reason| match reason {
        Reason::Replayed => (reason, "Replay protection: This packet is already seen..."),
        _ if sequence == 0 => (reason, ""),
        _ => (reason, "Replay protection: This packet is too old to be accepted"),
    })?;
    let payload = packet.data().get(esp::FRONT_LEN..).unwrap_or_default();
    let (trailer_len, _) = esp::trailer_of(payload).map_err(|bad| match bad {
        BadPadding::Length => (Reason::BadHeaderLength, "Invalid padding length"),
        BadPadding::Bytes => (Reason::BadProtocol, "Corrupt padding"),
    })?;
    if packet.strip(esp::FRONT_LEN) && packet.trim(trailer_len) {
        Ok(())
    } else {
        Err((Reason::Truncated, ""))
    }
}
