//! Aggregates: groups of packets, identified by a number in an annotation, and what is counted of them.

pub mod aggregate_counter;
pub mod aggregate_counter_vector;
pub mod aggregate_filter;
pub mod aggregate_first;
pub mod aggregate_hash;
pub mod aggregate_ip;
pub mod aggregate_ip_addr_pair;
pub mod aggregate_ip_flows;
pub mod aggregate_last;
pub mod aggregate_length;
pub mod aggregate_packet_counter;
pub mod aggregate_paint;
