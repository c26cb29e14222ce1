//! TCP and UDP.

pub mod check_tcp_header;
pub mod check_udp_header;
pub mod set_tcp_checksum;
pub mod set_udp_checksum;
pub(crate) mod transport_check;
pub mod udp_ip_encap;
