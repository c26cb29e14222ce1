//! Looking at packets and counting them.

pub mod arp_print;
pub mod average_counter;
pub mod check_number_packet;
mod contents;
pub mod counter;
pub mod ip6_print;
mod ip_line;
pub mod ip_print;
pub mod number_packet;
mod packet_number;
pub mod print;
mod printer;
mod rate;
pub mod record_timestamp;
pub mod timestamp_diff;
pub(crate) mod trigger;
