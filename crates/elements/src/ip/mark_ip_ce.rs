//! MarkIPCE - marks IP packets as having met congestion
//!
//! # Synopsis
//! `MarkIPCE([FORCE])`
//!
//! # Description
//! Sets the "congestion experienced" mark in each packet's IP header (RFC 3168) and updates the header's
//! checksum. Packets whose transport does not understand the mark are dropped, unless FORCE says to mark them,
//! too: they say so by ECN bits of 0.
//!
//! # Arguments
//! - FORCE: whether to mark packets whose transport does not understand. Positional, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `drops` (read): packets dropped since their transport does not understand the mark.
//!
//! # Drops
//! - limited: the packet's transport does not understand the mark.
//! - header not set: the packet's IP header is not known.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45010014 00000000 401177d6 01000001 02000002>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> MarkIPCE
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIPECN, RED

use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, PerThread, Reason, Setup, checksum,
    register,
};

use super::{network_header, network_header_mut};

/// The element; its manual is at the top of the file.
pub struct MarkIpCe {
    force: bool,
    drops: PerThread<Count>,
}

register!(MarkIpCe, "mark_ip_ce.rs");

impl Element for MarkIpCe {
    const CLASS: Class = Class::new("MarkIPCE", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let force = setup.args.positional("FORCE", false);
        setup.args.complete()?;
        Ok(Self { force, drops: PerThread::default() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| {
            let Some(ip) = network_header(&packet) else {
                return cx.drop(packet, Reason::NoHeader);
            };
            match ip.tos & CONGESTION_EXPERIENCED {
                NOT_CAPABLE if !self.force => {
                    self.drops.mine(cx).add(1);
                    return cx.drop(packet, Reason::Limited);
                }
                CONGESTION_EXPERIENCED => return Some(packet),
                _ => {}
            }
            if let Some(ip) = network_header_mut(&mut packet) {
                let word = |tos| u16::from_be_bytes([ip.version_ihl, tos]);
                let marked = ip.tos | CONGESTION_EXPERIENCED;
                let sum = checksum::update(ip.checksum.get(), word(ip.tos), word(marked));
                ip.tos = marked;
                ip.checksum.set(sum);
            }
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

/// The mark, both bits of ECN.
const CONGESTION_EXPERIENCED: u8 = 3;

/// What transports say that do not understand the mark.
const NOT_CAPABLE: u8 = 0;

#[cfg(test)]
mod tests {
    use crate::ip::test_packets::withstands;

    #[test]
    fn withstands_anything() {
        withstands("MarkIPCE", 1);
        withstands("MarkIPCE(true)", 1);
    }
}
