//! The element library: one element, one file, its manual at the top, by topic.
//!
//! A program that is to have these elements names the crate (`use millrace_elements as _;`): the
//! classes register themselves when it is linked.

millrace_core::declares_needs!();

pub mod aggregate;
pub mod capability;
pub mod classify;
pub mod control;
pub mod devices;
pub mod ethernet;
pub mod flows;
mod flush_timer;
pub mod gpu;
pub mod icmp;
pub mod ids;
pub mod ip;
pub mod ip6;
pub mod ipsec;
pub mod measure;
mod per_port;
pub mod queueing;
pub mod rewrite;
mod rule_file;
pub mod standard;
pub mod streams;
pub mod summary;
mod task_handlers;
pub mod tcpudp;
pub mod threads;
pub mod timestamps;
pub mod tunnels;

#[cfg(test)]
use millrace_test_packets as test_packets;
