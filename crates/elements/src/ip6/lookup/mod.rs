//! IPv6 routing tables: what the addresses of packets are looked up in.
//!
//! Routes, transactions, handlers and what readers see of changes are those of
//! [`ip::lookup`](crate::ip::lookup).

pub mod lookup_ip6_route;
mod ranges;
mod tree;

#[cfg(test)]
mod tests;

pub use tree::{Tree, TreeWriter};
