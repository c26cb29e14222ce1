//! Elements that print, count and measure packets.

pub mod arp_print;
pub mod average_batch_counter;
pub mod average_counter;
pub mod check_number_packet;
pub mod counter;
pub mod cycle_count_accum;
pub mod ip6_print;
pub mod ip_print;
pub mod ip_rate_monitor;
pub mod number_packet;
pub mod print;
mod printing;
pub(crate) mod rate;
pub mod record_timestamp;
pub mod set_cycle_count;
pub mod timestamp_diff;
