//! TCP and UDP.

pub mod check_tcp_header;
pub mod check_udp_header;
pub mod dynamic_udp_ip_encap;
mod fast_source;
pub mod fast_tcp_flows;
pub mod fast_udp_flows;
pub mod fast_udp_source;
pub mod set_tcp_checksum;
pub mod set_udp_checksum;
pub mod store_udp_time_seq_record;
pub mod strip_tcp_header;
pub mod tcp_fragmenter;
pub mod tcp_ip_send;
pub(crate) mod transport_check;
pub mod udp_ip_encap;
pub mod unstrip_tcp_header;
