//! IPv4.

pub mod anonymize_ip_addr;
pub mod auto_mark_ip_header;
pub mod check_ip_header;
pub mod check_ip_header2;
pub mod dec_ip_ttl;
pub mod drop_broadcasts;
pub mod erase_ip_payload;
pub mod fix_ip_src;
pub mod get_ip_address;
pub(crate) mod header;
pub mod ip_encap;
pub mod ip_fragmenter;
pub mod ip_gw_options;
pub mod ip_input_combo;
pub mod ip_mirror;
pub mod ip_output_combo;
pub mod ip_reassembler;
pub mod lookup;
pub mod mark_ip_ce;
pub mod mark_ip_header;
pub mod reset_ip_checksum;
pub mod rip_send;
pub mod set_ip_address;
pub mod set_ip_checksum;
pub mod set_ip_dscp;
pub mod set_ip_ecn;
pub mod set_rand_ip_address;
pub mod store_ip_address;
pub mod strip_ip_header;
pub mod truncate_ip_payload;
pub mod unstrip_ip_header;

pub use header::view::{network_header, network_header_mut, pseudo_header, swap_ports, unstrip_to};
