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
//! - `config` (read, write): the arguments; SRC and DST may change while packets run.
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

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, protocol};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Published, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use super::type_and_code::{is_numbered, read_code, read_type};
use crate::ip::header::outer::{Choice, Destination, OuterHeader, source_handler};

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

/// The headers.
pub(super) struct IcmpEncap {
    outer: Published<OuterHeader>,
    icmp_type: u8,
    code: u8,
    identifier: u16,
    /// The next identification and sequence number.
    next: AtomicU16,
}

impl IcmpEncap {
    pub(super) fn new(
        source: std::net::Ipv4Addr,
        destination: std::net::Ipv4Addr,
        (icmp_type, code): (u8, u8),
        identifier: u16,
    ) -> Self {
        let outer = OuterHeader::new(&Choice {
            protocol: protocol::ICMP,
            source,
            destination: Destination::Address(destination),
            tos: 0,
            ttl: 255,
            dont_fragment: false,
        });
        let outer = Published::new(outer);
        Self { outer, icmp_type, code, identifier, next: AtomicU16::new(1) }
    }

    pub(super) fn process(&self, cx: &mut Context, batch: &mut Batch) {
        let outer = self.outer.load();
        let icmp_len = IcmpHeader::len_of(self.icmp_type);
        batch.map_filter(|mut packet| {
            let id = self.take_number();
            let len = packet.len() + icmp_len;
            let Some(ip) = outer.for_packet(&mut packet, len, id) else {
                return cx.drop(packet, Reason::TooBig);
            };
            let mut icmp = IcmpHeader {
                kind: self.icmp_type,
                code: self.code,
                checksum: 0.into(),
                rest: [0; 4],
            };
            if is_numbered(self.icmp_type) {
                icmp.set_id(self.identifier);
                icmp.set_sequence(id);
            }
            // The rest of a longer header is zero.
            let sum = Sum::of(icmp.as_bytes()).add_bytes(packet.data());
            icmp.checksum.set(sum.finish());
            packet.prepend(icmp_len - IcmpHeader::LEN).fill(0);
            packet.push_front(icmp.as_bytes());
            packet.push_front(ip.as_bytes());
            packet.set_network_header(0, Ipv4Header::LEN);
            Some(packet)
        });
    }

    /// Counts up from 1 and skips 0.
    fn take_number(&self) -> u16 {
        let next = |number: u16| Some(number.wrapping_add(1).max(1));
        self.next.fetch_update(Relaxed, Relaxed, next).unwrap_or(1)
    }

    /// Declares the handlers of class `E`, which holds headers.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.reconfigure(move |element, new| {
            let (this, new) = (of(element), of(&new));
            let fixed = |encap: &Self| (encap.icmp_type, encap.code, encap.identifier);
            if fixed(this) != fixed(new) {
                return Err("only the addresses can change while packets run".into());
            }
            this.outer.store(new.outer.load());
            Ok(())
        });
        source_handler(handlers, move |element| &of(element).outer);
        handlers.read("dst", move |element, _| of(element).outer.load().destination().to_string());
        handlers.write("dst", move |element, call| {
            let destination = Destination::Address(call.parse()?);
            of(element).outer.update(|outer| outer.with_destination(destination));
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::{has_right_transport_checksum, read, withstands};

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
