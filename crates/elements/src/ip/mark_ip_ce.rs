//! MarkIPCE - sets the ECN "congestion experienced" mark of IP packets
//!
//! # Synopsis
//! `MarkIPCE([FORCE])`
//!
//! # Description
//! Sets the "congestion experienced" mark in each packet's IP header (RFC 3168) and updates the header checksum.
//! Packets whose transport is not ECN-capable, shown by ECN bits of 0, are dropped unless FORCE is true.
//!
//! # Arguments
//! - FORCE: whether to mark packets whose transport is not ECN-capable too. Positional, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `drops` (read): number of packets dropped because their transport is not ECN-capable.
//!
//! # Drops
//! - limited: the packet's transport is not ECN-capable.
//! - header not set: the packet's network header is not set.
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

/// The mark: both ECN bits.
const CONGESTION_EXPERIENCED: u8 = 3;

/// The ECN bits of transports that are not ECN-capable.
const NOT_CAPABLE: u8 = 0;

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("MarkIPCE", 1);
        withstands("MarkIPCE(true)", 1);
    }
}
