//! ICMP.

pub mod icmp_error;
pub mod icmp_ping_responder;
mod type_and_code;
