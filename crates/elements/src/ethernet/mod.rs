//! Ethernet and ARP.

mod address_place;
pub(crate) mod arp_cache;
pub mod arp_faker;
pub mod arp_querier;
pub mod arp_responder;
pub mod arp_table;
mod bridge_message;
pub mod check_arp_header;
pub mod ensure_ether;
pub mod ether_encap;
pub mod ether_mirror;
pub mod ether_pause_source;
pub mod ether_rewrite;
pub mod ether_span_tree;
pub mod ether_switch;
pub mod ether_vlan_encap;
pub mod get_ether_address;
mod header_handlers;
pub mod host_ether_filter;
pub mod ip_multicast_ether_encap;
mod learning;
pub mod listen_ether_switch;
pub mod mark_mac_header;
pub mod set_ether_address;
pub mod set_vlan_anno;
pub mod store_ether_address;
pub mod strip_ether_vlan_header;
pub mod vlan_decap;
pub mod vlan_encap;
mod vlan_tag;

use std::sync::Arc;

use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::net::EtherAddress;
use millrace_core::{Element, Handlers, Published, View};

/// Length of the two addresses at the start of an Ethernet header.
const ADDRESSES: usize = 12;
/// Length of a VLAN tag.
const TAG: usize = 4;

/// The VLAN tag after a frame's addresses, if it has this EtherType; `Some(None)` if it is
/// truncated.
#[inline(always)]
fn tag_of(frame: &[u8], ether_type: u16) -> Option<Option<u16>> {
    let after = frame.get(ADDRESSES..)?;
    let tagged = after.first_chunk() == Some(&ether_type.to_be_bytes());
    let tci = || after.first_chunk().map(|&[_, _, c, d]| u16::from_be_bytes([c, d]));
    tagged.then(tci)
}

/// Changes the Ethernet header at the start of a packet, and marks it as the MAC header. Returns
/// false and changes nothing if the packet is too short.
#[inline(always)]
fn rewrite_header(packet: &mut View, change: impl FnOnce(&mut EthernetHeader)) -> bool {
    if packet.len() < EthernetHeader::LEN {
        return false;
    }
    if let Some((header, _)) = EthernetHeader::view_mut(packet.data_mut()) {
        change(header);
    }
    packet.set_mac_header(0);
    true
}

/// Registers a read and write handler for an Ethernet address.
fn address_handler<E: Element>(
    handlers: &mut Handlers<E>,
    name: &str,
    of: fn(&E) -> &Published<EtherAddress>,
) {
    handlers.read(name, move |element: &E, _| of(element).load().to_string());
    handlers.write(name, move |element: &E, call| {
        of(element).store(Arc::new(call.parse()?));
        Ok(())
    });
}
