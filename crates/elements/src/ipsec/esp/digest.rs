//! Code shared by IPsecAuthHMACSHA1 and IPsecAuthSHA1: twelve bytes of a digest at the end of the packet.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{Args, Batch, Context, Element, Handlers, Packet, Reason};

/// Number of digest bytes in a packet (RFC 2404).
pub(crate) const DIGEST_LEN: usize = 12;

/// Whether digests are added or checked, and how many were wrong.
pub(crate) struct Digests {
    verify: bool,
    drops: AtomicU64,
}

impl Digests {
    /// Reads VERIFY: 0 means no, anything else yes.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let verify: i32 = args.mandatory("VERIFY");
        Self { verify: verify != 0, drops: AtomicU64::new(0) }
    }

    /// Adds digests, or checks and removes them. `digest` computes the digest of a packet; `fits` compares
    /// digests in constant time.
    pub(crate) fn process(
        &self,
        cx: &mut Context,
        batch: &mut Batch,
        digest: impl Fn(&Packet) -> Option<[u8; DIGEST_LEN]>,
        fits: impl Fn(&Packet, &[u8], &[u8]) -> Option<bool>,
    ) {
        batch.map_filter(|mut packet| {
            if !self.verify {
                let Some(digest) = digest(&packet) else {
                    return cx.drop(packet, Reason::NoHeader);
                };
                packet.push_back(&digest);
                return Some(packet);
            }
            let Some((data, found)) = packet.data().split_last_chunk::<DIGEST_LEN>() else {
                return cx.drop(packet, Reason::Truncated);
            };
            match fits(&packet, data, found) {
                None => cx.drop(packet, Reason::NoHeader),
                Some(true) if packet.trim(DIGEST_LEN) => Some(packet),
                _ => {
                    if self.drops.fetch_add(1, Relaxed) == 0 {
                        cx.router().chatter("Invalid SHA1 authentication digest");
                    }
                    cx.push_or_drop(1, packet, Reason::NotAuthentic);
                    None
                }
            }
        });
    }

    /// The handler `drops`.
    pub(crate) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("drops", move |element, _| of(element).drops.load(Relaxed));
    }
}
