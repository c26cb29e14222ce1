//! Tunnels: GRE, VXLAN and GTP headers. IPEncap and IP6Encap make those of IP in IP.

pub mod gre_decap;
pub mod gre_encap;
mod gre_header;
pub mod gtp_decap;
pub mod gtp_encap;
pub mod vxlan_decap;
pub mod vxlan_encap;
