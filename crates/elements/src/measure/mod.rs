//! Looking at packets and counting them.

pub mod arp_print;
pub mod average_counter;
mod contents;
pub mod counter;
mod ip_line;
pub mod ip_print;
pub mod print;
mod printer;
mod rate;
