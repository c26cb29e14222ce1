//! Tunnels: GRE, VXLAN and GTP headers. For IP in IP, use IPEncap and IP6Encap.

pub mod gre_decap;
pub mod gre_encap;
pub mod gtp_decap;
pub mod gtp_encap;
pub mod vxlan_decap;
pub mod vxlan_encap;
