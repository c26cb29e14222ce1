//! EnsureEther - adds an Ethernet header to IP packets that lack one
//!
//! # Synopsis
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! # Description
//! Forwards unchanged the packets that are not IP, and the IP packets that appear to have an Ethernet
//! header. If a packet starts with its IP header, and an Ethernet header that was stripped is still in
//! front of it, that header is restored. Every other IP packet gets an Ethernet header with these
//! fields directly in front of its IP header.
//!
//! # Arguments
//! - ETHERTYPE: 0 to 65535. Positional, default 0x0800.
//! - SRC: source address. Positional, default 1:1:1:1:1:1.
//! - DST: destination address. Positional, default 2:2:2:2:2:2.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "hello", LIMIT 1) -> UDPIPEncap(10.0.0.1, 10, 10.0.0.2, 20)
//!   -> EnsureEther -> Discard;
//! ```
//!
//! # See also
//! EtherEncap, MarkIPHeader, CheckIPHeader

use millrace_core::headers::{EthernetHeader, Header, U16, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct EnsureEther {
    header: EthernetHeader,
}

register!(EnsureEther, "ensure_ether.rs");

impl Element for EnsureEther {
    const CLASS: Class = Class::new("EnsureEther", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ether_type: u16 = setup.args.positional("ETHERTYPE", ether_type::IPV4);
        let src = setup.args.positional("SRC", EtherAddress([1; 6]));
        let dst = setup.args.positional("DST", EtherAddress([2; 6]));
        setup.args.complete()?;
        Ok(Self { header: EthernetHeader { dst, src, ether_type: U16::new(ether_type) } })
    }
}

impl PerPacket for EnsureEther {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(offset) = packet.network_offset() else { return Way::ON };
        if offset == EthernetHeader::LEN && is_ip(packet.data()) {
            return Way::ON;
        }
        if offset == 0 && packet.unstrip(EthernetHeader::LEN) {
            if is_ip(packet.data()) {
                return Way::ON;
            }
            let stripped = packet.strip(EthernetHeader::LEN);
            debug_assert!(stripped, "it was just put back");
        }
        let stripped = packet.strip(offset);
        debug_assert!(stripped, "the header lies in the data");
        packet.push_front(self.header.as_bytes());
        Way::ON
    }
}

/// Whether a frame's EtherType is IPv4 or IPv6.
fn is_ip(frame: &[u8]) -> bool {
    let header = EthernetHeader::view(frame);
    header.is_some_and(|(header, _)| {
        matches!(header.ether_type.get(), ether_type::IPV4 | ether_type::IPV6)
    })
}
