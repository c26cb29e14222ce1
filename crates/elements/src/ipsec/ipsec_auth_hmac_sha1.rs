//! IPsecAuthHMACSHA1 - adds or verifies HMAC-SHA1 digests of packets
//!
//! # Synopsis
//! `IPsecAuthHMACSHA1(VERIFY)`
//!
//! # Description
//! Appends the first 12 bytes of the packet's HMAC-SHA1 (RFC 2404), or verifies and removes them. The key is the
//! authentication key of the security association that the packet's IPSEC_SA_DATA_REFERENCE annotation names. A message
//! is printed for the first wrong digest.
//!
//! # Arguments
//! - VERIFY: 0 to add digests, 1 to verify them. Positional, mandatory.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets. Output 1, push, optional: packets with a wrong digest, unchanged.
//!
//! # Handlers
//! - `drops` (read): packets with a wrong digest.
//!
//! # Drops
//! - not authentic: the digest is wrong, and output 1 is not connected.
//! - truncated: the packet is shorter than a digest.
//! - header not set: no annotation names a security association.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.0.2, 53)
//!     -> r :: RadixIPsecLookup(10.1.0.0/16 192.0.2.2 1 234 ABCDEFFF001DEFD2 112233EE556677EE 300 64);
//! r[0] -> Discard;
//! r[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecEncap(50) -> Discard;
//! ```
//!
//! # See also
//! IPsecESPEncap, IPsecAES, IPsecAuthSHA1, RadixIPsecLookup

use hmac::{Hmac, KeyInit, Mac};
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Packet, Setup, register};
use sha1::Sha1;

use super::esp::association::Association;
use super::esp::digest::{DIGEST_LEN, Digests};

/// The element; its manual is at the top of the file.
pub struct IpsecAuthHmacSha1 {
    digests: Digests,
}

register!(IpsecAuthHmacSha1, "ipsec_auth_hmac_sha1.rs");

impl Element for IpsecAuthHmacSha1 {
    const CLASS: Class = Class::new("IPsecAuthHMACSHA1", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let digests = Digests::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { digests })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let digest = |packet: &Packet| {
            let code = keyed(packet, packet.data())?.finalize().into_bytes();
            code.first_chunk::<DIGEST_LEN>().copied()
        };
        let fits = |packet: &Packet, data: &[u8], found: &[u8]| {
            Some(keyed(packet, data)?.verify_truncated_left(found).is_ok())
        };
        self.digests.process(cx, batch, digest, fits);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Digests::handlers(handlers, |element| &element.digests);
    }
}

/// The HMAC of `data`, with the packet's key.
fn keyed(packet: &Packet, data: &[u8]) -> Option<Hmac<Sha1>> {
    let association = Association::of(packet)?;
    let mut code = Hmac::<Sha1>::new_from_slice(&association.authentication_key).ok()?;
    code.update(data);
    Some(code)
}
