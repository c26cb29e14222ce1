//! Routing tables, and the elements that route IPv4 packets by them.
//!
//! A [`RouteTable`] has two halves. The routes as they were written are a prefix tree with the number
//! of a hop for each network (`rib.rs`). What packets are looked up in is a [`Fib`], made from the
//! routes and kept up to date by its [`FibWriter`]:
//!
//! | structure | element | a lookup | a change |
//! |---|---|---|---|
//! | [`Dir24x8`] | DirectIPLookup | one or two memory accesses | in place |
//! | [`Radix`] | RadixIPLookup | up to seven | copies up to seven nodes |
//! | [`Ranges`] | RangeIPLookup | a binary search in cache | makes the slots that it touches anew |
//! | [`Poptrie`] | none: see below | two to five, in cache | makes the slots that it touches anew |
//! | [`Linear`], [`Sorted`] | LinearIPLookup, SortedIPLookup | all routes | copies the list |
//!
//! All but the structures is written for [addresses](Address) of either family; what IPv6 packets are
//! looked up in is in `ip6/lookup`.
//!
//! # Changes while packets pass
//! Readers take a [`Snapshot`] for each batch and never wait. Writers take turns. A transaction is
//! checked against the routes first, so that one that fails has touched nothing, then reduced to what
//! it makes of each network, then shown to readers:
//!
//! - Where a structure is copied, by giving new readers the copy: they see the whole transaction at
//!   once.
//! - In DIR-24-8 tables, whose 32 MiB are not to be copied, by a store for each entry, in an order in
//!   which each address goes from its hop before the transaction to that after it directly (the
//!   reason is told at `Change::rank`). Two addresses may be seen to change one after the other,
//!   as they are when two packets are routed one after the other.
//! - In structures with a directory of slots (`slotted.rs`), by a store for each slot that has changed, which
//!   leads readers to a part that was made beside the old one.
//!
//! What a change leaves behind, such as the number of a hop without routes or a node that was
//! copied, may still be held by readers. It is kept with the view that they have, and used again
//! when nobody has that view any more: writers ask for that at the end of each transaction, and wait
//! for it only after a change of the default route of a DIR-24-8 table (the reason is told there).
//! So a table that changes for ever does not grow, and no forwarding thread ever frees anything.
//!
//! # Figures
//! `cargo xtask bench lookup` compares the structures on the Internet's routes; `docs/design.md` has the table, and
//! why DirectIPLookup is DIR-24-8. To copy a DIR-24-8 table for each transaction would take milliseconds, and twice the
//! memory. [`Poptrie`] is what to take where the cache is small and destinations are many.

mod address;
mod blocks;
mod command;
mod dir_24_8;
pub mod direct_ip_lookup;
mod entry;
mod error;
mod fib;
mod hops;
mod linear;
pub mod linear_ip_lookup;
pub mod lookup_ip_route;
mod memory;
mod poptrie;
mod radix;
pub mod radix_ip_lookup;
mod range;
pub mod range_ip_lookup;
pub(crate) mod rib;
mod route;
pub(crate) mod routing;
mod slotted;
pub mod sorted_ip_lookup;
pub mod static_ip_lookup;
mod sweep;
mod table;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use command::{Command, Syntax, Verb};
pub use dir_24_8::{Dir24x8, Dir24x8Writer};
pub use error::Error;
pub use fib::{Change, Fib, FibWriter, Part, Readers, Routes};
pub use hops::HopId;
pub use linear::{Linear, LinearWriter, Sorted, SortedWriter};
pub use poptrie::{Poptrie, PoptrieWriter};
pub use radix::{Radix, RadixWriter};
pub use range::{Ranges, RangesWriter};
pub use rib::Order;
pub use route::{Hop, NotAPrefix, Prefix, Route};
pub use table::{RouteTable, Snapshot};
