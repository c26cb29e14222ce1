//! Rewriters: network address and port translation.

mod addresses;
mod family;
mod flow_set;
mod flow_table;
pub mod ftp_port_mapper;
mod handlers;
pub mod icmp_ping_rewriter;
pub mod icmp_rewriter;
mod input;
pub mod ip_addr_pair_rewriter;
pub mod ip_addr_rewriter;
pub mod ip_rewriter;
pub mod ip_rewriter_patterns;
mod pattern;
mod rewriter;
pub mod round_robin_ip_mapper;
mod sequence;
pub mod source_ip_hash_mapper;
mod takeover;
pub mod tcp_rewriter;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
pub mod udp_rewriter;
