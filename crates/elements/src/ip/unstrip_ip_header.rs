//! UnstripIPHeader - restores the IP header that StripIPHeader removed
//!
//! # Synopsis
//! `UnstripIPHeader()`
//!
//! # Description
//! Restores the IP header that StripIPHeader removed from the front of a packet. Packets that begin at or before their
//! IP header pass unchanged.
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
//! - header not set: the packet's network header is not set, or its bytes are no longer in the headroom.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> StripIPHeader
//!     -> UnstripIPHeader
//!     -> CheckIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! StripIPHeader, MarkIPHeader, Unstrip

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use super::unstrip_to;

/// The element; its manual is at the top of the file.
pub struct UnstripIpHeader;

register!(UnstripIpHeader, "unstrip_ip_header.rs");

impl Element for UnstripIpHeader {
    const CLASS: Class = Class::new("UnstripIPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for UnstripIpHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        unstrip_to(packet, packet.network_header())
    }
}
