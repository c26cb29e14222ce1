//! IPsecAuthSHA1 - adds or verifies SHA-1 digests of packets
//!
//! # Synopsis
//! `IPsecAuthSHA1(VERIFY)`
//!
//! # Description
//! Appends the first 12 bytes of the packet's SHA-1 digest, or verifies and removes them. There is no key, so this
//! detects damage, not forgery. A message is printed for the first wrong digest.
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
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> Discard;
//! ```
//!
//! # See also
//! IPsecAuthHMACSHA1, IPsecESPEncap

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Packet, Setup, register};
use sha1::{Digest, Sha1};

use super::esp::digest::{DIGEST_LEN, Digests};

/// The element; its manual is at the top of the file.
pub struct IpsecAuthSha1 {
    digests: Digests,
}

register!(IpsecAuthSha1, "ipsec_auth_sha1.rs");

impl Element for IpsecAuthSha1 {
    const CLASS: Class = Class::new("IPsecAuthSHA1", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let digests = Digests::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { digests })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let digest = |data: &[u8]| Sha1::digest(data).first_chunk::<DIGEST_LEN>().copied();
        // There is no secret, so the comparison need not take constant time.
        let fits = |_: &Packet, data: &[u8], found: &[u8]| Some(digest(data)? == found);
        self.digests.process(cx, batch, |packet| digest(packet.data()), fits);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Digests::handlers(handlers, |element| &element.digests);
    }
}
