//! IPv6 routing tables: longest prefix match.
//!
//! Routes, transactions, handlers and the readers' view of changes are those of [`ip::lookup`](crate::ip::lookup).
//!
//! # Figures
//! `cargo xtask bench lookup6 ipasn6.dat`, with the 27,693 IPv6 routes of RouteViews of November 2015, on one core
//! of a shared Xeon virtual machine: the build takes 37 ms; the table uses 1.0 MB, and the routes themselves 1.3 MB;
//! a lookup takes 17 ns in batches and 30 ns one at a time; a change of one route takes 0.4 ms.

pub mod lookup_ip6_route;
mod tree;

#[cfg(test)]
mod tests;

pub use tree::{Tree, TreeWriter};
