//! ICMPIPEncap - prepends ICMP and IP headers to packets
//!
//! # Synopsis
//! `ICMPIPEncap(SRC, DST, TYPE [, CODE, keyword IDENTIFIER])`
//!
//! # Description
//! Prepends an IP header and an ICMP header of the given type to each packet, and sets the destination annotation to
//! DST. The identification counts up from 1, skipping 0. The time to live is 255.
//!
//! Echo, timestamp and information messages have IDENTIFIER as their identifier, and the IP identification as their
//! sequence number. Timestamp messages have three timestamps of zero; all other messages have a header of eight bytes.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//! - TYPE: ICMP type by number or name, such as `echo` or `unreachable`. Positional, mandatory.
//! - CODE: ICMP code by number, or by a name valid for the type, such as `port`. Positional, default 0.
//! - IDENTIFIER: the identifier of the messages that have one. Keyword, default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `dst` (read, write): DST.
//!
//! # Drops
//! - too big: with the headers, the packet would exceed 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 28, LIMIT 10)
//!     -> ICMPIPEncap(18.26.4.24, 18.26.4.97, unreachable, port)
//!     -> Discard;
//! ```
//!
//! # See also
//! ICMPPingEncap, ICMPError, IPEncap, UDPIPEncap

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::encap::IcmpEncap;
use super::type_and_code::{read_code, read_type};

/// The element; its manual is at the top of the file.
pub struct IcmpIpEncap(IcmpEncap);

register!(IcmpIpEncap, "icmp_ip_encap.rs");

impl Element for IcmpIpEncap {
    const CLASS: Class = Class::new("ICMPIPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source = args.mandatory("SRC");
        let destination = args.mandatory("DST");
        let icmp_type = read_type(args).unwrap_or_default();
        let code = read_code(args, icmp_type, "invalid CODE");
        let identifier = args.keyword("IDENTIFIER", 0);
        args.complete()?;
        Ok(Self(IcmpEncap::new(source, destination, (icmp_type, code), identifier)))
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
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::ip::test_packets::{has_right_transport_checksum, read, withstands};

    proptest! {
        /// Etherparse accepts the headers, and the payload follows them.
        #[test]
        fn headers_are_correct(
            kind: u8,
            code: u8,
            identifier: u16,
            data in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let element = format!(
                "ICMPIPEncap(1.0.0.1, 2.0.0.2, {kind}, {code}, IDENTIFIER {identifier})"
            );
            let out = Rig::new(&element, 1, 1).unwrap().push(0, &[&data]);
            let (ip, message) = read(&out[0][0]);
            prop_assert_eq!((ip.source, ip.destination), ([1, 0, 0, 1], [2, 0, 0, 2]));
            prop_assert_eq!((message[0], message[1]), (kind, code));
            prop_assert!(has_right_transport_checksum(&out[0][0]));
            let header = if matches!(kind, 13 | 14) { 20 } else { 8 };
            prop_assert_eq!(&message[header..], &data);
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("ICMPIPEncap(1.0.0.1, 2.0.0.2, timestamp)", 1);
    }
}
