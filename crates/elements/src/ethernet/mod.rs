//! Ethernet and ARP.

pub(crate) mod arp_cache;
pub mod arp_faker;
pub mod arp_querier;
pub mod arp_responder;
pub mod arp_table;
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
mod header;
pub mod host_ether_filter;
pub mod ip_multicast_ether_encap;
pub mod listen_ether_switch;
pub mod mark_mac_header;
pub mod set_ether_address;
pub mod set_vlan_anno;
pub mod store_ether_address;
pub mod strip_ether_vlan_header;
pub mod vlan_decap;
pub mod vlan_encap;
