//! IPsecAuthSHA1 - makes or checks digests by SHA-1
//!
//! # Synopsis
//! `IPsecAuthSHA1(VERIFY)`
//!
//! # Description
//! Adds the first 12 bytes of the packet's SHA-1 digest to its end, or checks those that are there and takes
//! them off. There is no key: this finds damage, not forgery. The first wrong digest is reported.
//!
//! # Arguments
//! - VERIFY: 0 to add digests, 1 to check them. Positional, mandatory.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets. Output 1, push, may be left out: packets with a wrong
//! digest, unchanged.
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

use super::digest::{DIGEST_LEN, Digests};

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
        // Nothing is secret here.
        let fits = |_: &Packet, data: &[u8], found: &[u8]| Some(digest(data)? == found);
        self.digests.process(cx, batch, |packet| digest(packet.data()), fits);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Digests::handlers(handlers, |element| &element.digests);
    }
}
