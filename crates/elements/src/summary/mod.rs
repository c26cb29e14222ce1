//! Packets as text: summary dumps, and the text output of other programs.

mod anno;
mod calendar;
mod draft;
mod feed;
mod field;
mod flow_dump;
mod flow_file_name;
pub mod from_cap_dump;
pub mod from_ip_summary_dump;
pub mod from_net_flow_summary_dump;
pub mod from_tcpdump;
mod icmp;
mod ip;
mod ip_options;
pub(crate) mod lines;
mod link;
mod options;
mod payload;
mod reader;
mod record;
mod seen;
mod several;
mod table;
mod tcp;
mod tcp_options;
mod text;
pub mod to_ip_flow_dumps;
pub mod to_ip_summary_dump;
mod told;
mod udp;

#[cfg(test)]
mod tests;
