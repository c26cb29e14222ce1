//! Packets as text: summary dumps, and the text output of other programs.

mod fields;
pub mod from_cap_dump;
pub mod from_ip_summary_dump;
pub mod from_net_flow_summary_dump;
pub mod from_tcpdump;
pub(crate) mod reading;
pub mod to_ip_flow_dumps;
pub mod to_ip_summary_dump;

#[cfg(test)]
mod tests;
