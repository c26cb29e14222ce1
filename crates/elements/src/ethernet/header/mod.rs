//! The Ethernet header and its VLAN tag: reading, rewriting, and the handlers for its fields.

pub(crate) mod address_place;
pub(crate) mod handlers;
pub(crate) mod vlan_tag;
