//! IPv6.

pub mod address_translator;
pub mod check_ip6_header;
pub mod dec_ip6_hlim;
pub mod get_ip6_address;
mod header;
pub mod icmp6_error;
pub mod ip6_encap;
pub mod ip6_fragmenter;
pub mod ip6_mirror;
pub mod ip6_nd_advertiser;
pub mod ip6_nd_solicitor;
pub mod lookup;
pub mod mark_ip6_header;
mod neighbor;
pub mod protocol_translator46;
pub mod protocol_translator64;
pub mod set_ip6_address;
pub mod set_ip6_dscp;
mod translation;
pub mod udp_ip6_encap;
