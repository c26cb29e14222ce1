//! IPv4.

pub mod check_ip_header;
pub mod check_ip_header2;
pub mod dec_ip_ttl;
pub mod drop_broadcasts;
pub mod fix_ip_src;
pub mod get_ip_address;
mod header_check;
pub mod mark_ip_header;
pub mod set_ip_address;
#[cfg(test)]
pub(crate) mod test_packets;
