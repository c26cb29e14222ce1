//! Rewriters: network address and port translation.

pub mod ftp_port_mapper;
pub mod icmp_ping_rewriter;
pub mod icmp_rewriter;
pub mod ip_addr_pair_rewriter;
pub mod ip_addr_rewriter;
pub mod ip_rewriter;
pub mod ip_rewriter_patterns;
pub(crate) mod mappings;
mod rewriter;
pub mod round_robin_ip_mapper;
pub mod source_ip_hash_mapper;
pub mod tcp_rewriter;
#[cfg(test)]
mod tests;
pub mod udp_rewriter;
