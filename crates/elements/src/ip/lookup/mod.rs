//! IPv4 routing tables, and the elements that route packets by them.

mod command;
mod dir_24_8;
pub mod direct_ip_lookup;
mod error;
mod fib;
mod hops;
mod linear;
pub mod linear_ip_lookup;
pub mod lookup_ip_route;
mod memory;
mod radix;
pub mod radix_ip_lookup;
mod range;
pub mod range_ip_lookup;
mod rib;
mod route;
mod routing;
pub mod sorted_ip_lookup;
pub mod static_ip_lookup;
mod table;

#[cfg(test)]
mod tests;

pub use command::{Command, Syntax, Verb};
pub use dir_24_8::{Dir24x8, Dir24x8Writer};
pub use error::Error;
pub use fib::{Change, Fib, FibWriter, Part, Readers, Routes};
pub use hops::HopId;
pub use linear::{Linear, LinearWriter, Sorted, SortedWriter};
pub use radix::{Radix, RadixWriter};
pub use range::{Ranges, RangesWriter};
pub use rib::Order;
pub use route::{Hop, NotAPrefix, Prefix, Route};
pub use table::{RouteTable, Snapshot};
