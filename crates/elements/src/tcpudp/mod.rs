//! TCP and UDP.

pub mod set_tcp_checksum;
pub mod set_udp_checksum;
pub mod udp_ip_encap;
