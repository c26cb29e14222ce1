//! IPsecEncap - prepends the outer IP header to packets of an IPsec tunnel
//!
//! # Synopsis
//! `IPsecEncap(PROTO)`
//!
//! # Description
//! Prepends an IP header to each packet, with protocol PROTO, source 0.0.0.0, time to live 250, and the packet's
//! destination annotation as destination. Sets the packet's "fix IP source" annotation, so that a FixIPSrc downstream
//! fills in the address of the outgoing interface. The identification counts up from 0.
//!
//! # Arguments
//! - PROTO: IP protocol by number or name; 50 is ESP. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read): 0.0.0.0.
//! - `dst` (read): DST_ANNO.
//!
//! # Drops
//! - too big: with the header, the packet would be longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> SetIPAddress(192.0.2.2)
//!     -> IPsecEncap(50)
//!     -> FixIPSrc(192.0.2.1)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPEncap, FixIPSrc, IPsecESPEncap, RadixIPsecLookup

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::args::IpProtocol;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};
use zerocopy::IntoBytes;

use crate::ip::header::outer::{Choice, Destination, OuterHeader};

/// The element; its manual is at the top of the file.
pub struct IpsecEncap {
    outer: OuterHeader,
    /// The next identification.
    id: AtomicU16,
}

register!(IpsecEncap, "ipsec_encap.rs");

impl Element for IpsecEncap {
    const CLASS: Class = Class::new("IPsecEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let IpProtocol(protocol) = setup.args.mandatory("PROTO");
        setup.args.complete()?;
        let outer = OuterHeader::new(&Choice {
            protocol,
            source: Ipv4Addr::UNSPECIFIED,
            destination: Destination::Annotation,
            tos: 0,
            ttl: 250,
            dont_fragment: false,
        });
        Ok(Self { outer, id: AtomicU16::new(0) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| {
            let len = packet.len();
            let id = self.id.fetch_add(1, Relaxed);
            let Some(header) = self.outer.for_packet(&mut packet, len, id) else {
                return cx.drop(packet, Reason::TooBig);
            };
            packet.push_front(header.as_bytes());
            packet.set_network_header(0, Ipv4Header::LEN);
            packet.set_fix_ip_src(true);
            Some(packet)
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("src", |element, _| element.outer.source());
        handlers.read("dst", |element, _| element.outer.destination().to_string());
    }
}
