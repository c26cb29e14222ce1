//! The Ethernet header and its VLAN tag: reading, rewriting, and the handlers for its fields.

pub(crate) mod address_place;
pub(crate) mod handlers;
pub(crate) mod vlan_tag;

use std::sync::Arc;

use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::net::EtherAddress;
use millrace_core::{Element, Handlers, Published, View};

/// Length of the two addresses at the start of an Ethernet header.
pub(super) const ADDRESSES: usize = 12;
/// Length of a VLAN tag.
pub(super) const TAG: usize = 4;

/// The VLAN tag after a frame's addresses, if it has this EtherType; `Some(None)` if it is
/// truncated.
#[inline(always)]
pub(super) fn tag_of(frame: &[u8], ether_type: u16) -> Option<Option<u16>> {
    let after = frame.get(ADDRESSES..)?;
    let tagged = after.first_chunk() == Some(&ether_type.to_be_bytes());
    let tci = || after.first_chunk().map(|&[_, _, c, d]| u16::from_be_bytes([c, d]));
    tagged.then(tci)
}

/// Changes the Ethernet header at the start of a packet, and marks it as the MAC header. Returns
/// false and changes nothing if the packet is too short.
#[inline(always)]
pub(super) fn rewrite_header(packet: &mut View, change: impl FnOnce(&mut EthernetHeader)) -> bool {
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
pub(super) fn address_handler<E: Element>(
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
