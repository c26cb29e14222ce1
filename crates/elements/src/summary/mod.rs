//! Packets as text: summary dumps, and the output of other programs.

mod anno;
mod calendar;
mod draft;
mod field;
pub mod from_ip_summary_dump;
mod icmp;
mod ip;
mod ip_options;
pub(crate) mod lines;
mod link;
mod md5;
mod options;
mod payload;
mod reader;
mod record;
mod seen;
mod several;
mod tcp;
mod tcp_options;
mod text;
pub mod to_ip_summary_dump;
mod udp;

#[cfg(test)]
mod tests;
