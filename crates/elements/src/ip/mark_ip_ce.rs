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
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

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

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

impl PerPacket for MarkIpCe {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(tos) = packet.ipv4().map(|ip| ip.tos) else {
            return Way::drop(Reason::NoHeader);
        };
        match tos & CONGESTION_EXPERIENCED {
            NOT_CAPABLE if !self.force => return Way::aside(0),
            CONGESTION_EXPERIENCED => return Way::ON,
            _ => {}
        }
        if let Some(ip) = packet.ipv4_mut() {
            ip.set_tos(tos | CONGESTION_EXPERIENCED);
        }
        Way::ON
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        match way.note() {
            Some(_) => {
                self.drops.mine(cx).add(1);
                cx.drop(packet, Reason::Limited)
            }
            None => cx.send_or_drop(packet, way),
        }
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
