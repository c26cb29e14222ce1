//! IPv6.

pub mod check_ip6_header;
pub mod dec_ip6_hlim;
pub mod get_ip6_address;
pub mod ip6_mirror;
pub mod lookup;
pub mod mark_ip6_header;
pub mod set_ip6_address;
pub mod set_ip6_dscp;
#[cfg(test)]
mod test_packets;
