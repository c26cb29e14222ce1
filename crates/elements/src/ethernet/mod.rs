//! Ethernet and ARP.

mod arp_cache;
pub mod arp_querier;
pub mod arp_responder;
pub mod ether_encap;
pub mod ether_mirror;
pub mod ether_rewrite;
pub mod host_ether_filter;
pub mod mark_mac_header;

use millrace_core::Packet;
use millrace_core::headers::{EthernetHeader, Header};

/// Changes the Ethernet header that a packet starts with, and marks it as the MAC header. False,
/// and nothing changed, when the packet is too short for one.
#[inline]
fn rewrite_header(packet: &mut Packet, change: impl FnOnce(&mut EthernetHeader)) -> bool {
    if packet.len() < EthernetHeader::LEN {
        return false;
    }
    if let Some((header, _)) = EthernetHeader::view_mut(packet.data_mut()) {
        change(header);
    }
    packet.set_mac_header(0);
    true
}
