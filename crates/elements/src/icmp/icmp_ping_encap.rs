//! ICMPPingEncap - encapsulates packets in ICMP echo requests
//!
//! # Synopsis
//! `ICMPPingEncap(SRC, DST [, keyword IDENTIFIER])`
//!
//! # Description
//! Prepends an IP header and an ICMP echo request header to each packet, which becomes the request's payload, and sets
//! the destination annotation to DST. Identification and sequence number are equal and count up from 1, skipping 0. The
//! time to live is 255.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//! - IDENTIFIER: the identifier of the echo requests. Keyword, default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `dst` (read, write): DST.
//! - `config` (read, write): the arguments; SRC and DST may change while packets run.
//!
//! # Drops
//! - too big: with the headers, the packet would exceed 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 56, LIMIT 10)
//!     -> ICMPPingEncap(18.26.4.24, 18.26.4.97, IDENTIFIER 7)
//!     -> Discard;
//! ```
//!
//! # See also
//! ICMPPingSource, ICMPPingResponder, ICMPIPEncap

use millrace_core::headers::icmp_type;
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::icmp_ip_encap::IcmpEncap;

/// The element; its manual is at the top of the file.
pub struct IcmpPingEncap(IcmpEncap);

register!(IcmpPingEncap, "icmp_ping_encap.rs");

impl Element for IcmpPingEncap {
    const CLASS: Class = Class::new("ICMPPingEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source = args.mandatory("SRC");
        let destination = args.mandatory("DST");
        let identifier = args.keyword("IDENTIFIER", 0);
        args.complete()?;
        Ok(Self(IcmpEncap::new(source, destination, (icmp_type::ECHO_REQUEST, 0), identifier)))
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        self.0.process(cx, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        IcmpEncap::handlers(handlers, |element| &element.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("ICMPPingEncap(1.0.0.1, 2.0.0.2)", 1);
    }
}
