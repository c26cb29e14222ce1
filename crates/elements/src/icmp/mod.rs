//! ICMP.

pub mod check_icmp_header;
pub mod icmp_error;
pub mod icmp_ip_encap;
pub mod icmp_ping_encap;
pub mod icmp_ping_responder;
pub mod icmp_ping_source;
mod type_and_code;
