//! The common part of ICMPPingEncap and ICMPIPEncap: prepends ICMP and IP headers to packets.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, protocol};
use millrace_core::{Batch, Context, Handlers, Published, Reason};
use zerocopy::IntoBytes;

use super::type_and_code::is_numbered;
use crate::ip::outer_header::{Choice, Destination, OuterHeader, source_handler};

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
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        source_handler(handlers, move |element| &of(element).outer);
        handlers.read("dst", move |element, _| of(element).outer.load().destination().to_string());
        handlers.write("dst", move |element, call| {
            let destination = Destination::Address(call.parse()?);
            of(element).outer.update(|outer| outer.with_destination(destination));
            Ok(())
        });
    }
}
