//! IPMulticastEtherEncap - prepends Ethernet headers to IP multicast packets
//!
//! # Synopsis
//! `IPMulticastEtherEncap(ETHERTYPE, SRC)`
//!
//! # Description
//! Prepends an Ethernet header to each packet. Its destination is the Ethernet group that corresponds
//! to the packet's destination annotation, an IP multicast address (RFC 1112, 6.4).
//!
//! # Arguments
//! - ETHERTYPE: 0 to 65535. Positional, mandatory.
//! - SRC: source address. Positional, mandatory.
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
//! InfiniteSource(DATA "hello", LIMIT 1) -> UDPIPEncap(10.0.0.1, 10, 239.1.2.3, 20)
//!   -> IPMulticastEtherEncap(0x0800, 1:1:1:1:1:1) -> Discard;
//! ```
//!
//! # See also
//! EtherEncap, ARPQuerier

use millrace_core::headers::{EthernetHeader, Header, U16};
use millrace_core::net::EtherAddress;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct IpMulticastEtherEncap {
    ether_type: u16,
    src: EtherAddress,
}

register!(IpMulticastEtherEncap, "ip_multicast_ether_encap.rs");

impl Element for IpMulticastEtherEncap {
    const CLASS: Class = Class::new("IPMulticastEtherEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ether_type = setup.args.mandatory("ETHERTYPE");
        let src = setup.args.mandatory("SRC");
        setup.args.complete()?;
        Ok(Self { ether_type, src })
    }
}

impl PerPacket for IpMulticastEtherEncap {
    const PREPENDS: usize = EthernetHeader::LEN;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let dst = EtherAddress::of_ipv4_group(packet.dst_ip());
        let ether_type = U16::new(self.ether_type);
        let header = EthernetHeader { dst, src: self.src, ether_type };
        packet.push_front(header.as_bytes());
        packet.set_link_header(0, EthernetHeader::LEN);
        Way::ON
    }
}
