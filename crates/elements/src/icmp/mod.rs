//! ICMP.

pub mod check_icmp_header;
mod encap;
pub mod icmp_error;
pub mod icmp_ip_encap;
pub mod icmp_ping_encap;
pub mod icmp_ping_responder;
pub mod icmp_ping_source;
mod ping_times;
mod type_and_code;
