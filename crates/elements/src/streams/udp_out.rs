//! UDPOut - ends a path on which elements read and change UDP datagrams
//!
//! # Synopsis
//! `UDPOut`
//!
//! # Description
//! Forwards packets. Elements such as WordMatcher look at each datagram by itself, and correct lengths and checksums
//! themselves, so this is here for FastClick's files.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> CTXManager -> UDPIn -> WordMatcher(WORD secret) -> UDPOut -> Discard;
//! ```
//!
//! # See also
//! UDPIn, TCPIn, WordMatcher

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct UdpOut;

register!(UdpOut, "udp_out.rs");

impl Element for UdpOut {
    const CLASS: Class = Class::new("UDPOut", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for UdpOut {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::ON
    }
}
