//! IPMirror - swaps the source and destination of IP packets
//!
//! # Synopsis
//! `IPMirror([DST_ANNO])`
//!
//! # Description
//! Swaps the source and destination address of each packet, and the ports of TCP and UDP packets. Fragments other than
//! the first have no ports. Checksums remain correct. The destination annotation is set to the new destination.
//!
//! # Arguments
//! - DST_ANNO: whether to set the destination annotation. Positional, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the packet's network header is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> IPMirror
//!     -> Discard;
//! ```
//!
//! # See also
//! IP6Mirror, EtherMirror, ICMPPingResponder

use millrace_core::headers::protocol;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::swap_ports;

/// The element; its manual is at the top of the file.
pub struct IpMirror {
    annotate: bool,
}

register!(IpMirror, "ip_mirror.rs");

impl Element for IpMirror {
    const CLASS: Class = Class::new("IPMirror", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let annotate = setup.args.positional("DST_ANNO", true);
        setup.args.complete()?;
        Ok(Self { annotate })
    }
}

impl PerPacket for IpMirror {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(ip) = packet.ipv4_mut() else { return Way::drop(Reason::NoHeader) };
        std::mem::swap(&mut ip.src, &mut ip.dst);
        let destination = ip.destination();
        let has_ports =
            matches!(ip.protocol, protocol::TCP | protocol::UDP) && ip.is_first_fragment();
        if self.annotate {
            packet.set_dst_ip(destination);
        }
        if has_ports && let Some(transport) = packet.transport_data_mut() {
            swap_ports(transport);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("IPMirror", 1);
    }
}
