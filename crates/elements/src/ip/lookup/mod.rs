//! Routing tables, and the elements that use them to route IPv4 packets.
//!
//! A [`RouteTable`] has two halves. The routes as configured are in a prefix tree that maps each network to the number
//! of a hop (`rib.rs`). Packets are looked up in a [`Fib`], which is built from the routes and kept up to date by its
//! [`FibWriter`] (all in `tables`):
//!
//! | structure | element | a lookup | a change |
//! |---|---|---|---|
//! | [`Dir24x8`] | DirectIPLookup | one or two memory accesses | in place |
//! | [`Radix`] | RadixIPLookup | up to seven | copies up to seven nodes |
//! | [`Ranges`] | RangeIPLookup | a binary search in cache | rebuilds the slots that it touches |
//! | [`Poptrie`] | none: see below | two to five, in cache | rebuilds the slots that it touches |
//! | [`Linear`], [`Sorted`] | LinearIPLookup, SortedIPLookup | all routes | copies the list |
//!
//! Everything except the structures supports [addresses](Address) of either family. The structures for IPv6 are in
//! `ip6/lookup`.
//!
//! # Changes while packets pass
//! Readers hold a view of the table for the duration of a batch and never wait. Writers run one at a time. A
//! transaction is first checked against the routes, so a transaction that fails changes nothing. It is then reduced to
//! one change per network, and then made visible to readers:
//!
//! - Structures that are copied: new readers get the copy, and so see the whole transaction at once.
//! - DIR-24-8 tables, whose 32 MiB are too large to copy: each entry is stored separately, in an order in which each
//!   address goes directly from its hop before the transaction to its hop after it (`Change::rank` explains why).
//!   Readers may see two addresses change one after the other, as when two packets are routed one after the other.
//! - Structures with a directory of slots (`slotted.rs`): each changed slot is stored separately, and leads readers to
//!   a part built beside the old one.
//!
//! Resources that a change leaves behind, such as the number of a hop without routes or a node that was replaced, may
//! still be in use by readers. They are kept with the view that readers have, and reused when no reader has that view
//! any more. Writers check this at the end of each transaction, and do not wait for it. So a table does not grow
//! however often it changes, and forwarding threads never free memory.
//!
//! # Figures
//! `cargo xtask bench lookup` compares the structures on the Internet's routes. `docs/design.md` has the results, and
//! explains why DirectIPLookup uses DIR-24-8. Copying a DIR-24-8 table for each transaction would take milliseconds and
//! need twice the memory. [`Poptrie`] is the best choice where the cache is small and there are many destinations.

pub mod direct_ip_lookup;
pub mod linear_ip_lookup;
pub mod lookup_ip_route;
pub mod radix_ip_lookup;
pub mod range_ip_lookup;
mod routes;
pub(crate) mod routing;
pub mod sorted_ip_lookup;
pub mod static_ip_lookup;
pub(crate) mod tables;

#[cfg(test)]
mod tests;

pub use routes::address::Address;
pub use routes::command::{Command, Syntax, Verb};
pub use routes::error::Error;
pub use routes::route::{Hop, NotAPrefix, Prefix, Route, RouteLookup};
pub use tables::dir_24_8::{Dir24x8, Dir24x8Writer};
pub use tables::fib::{Change, Fib, FibWriter, Part, Readers, Routes};
pub use tables::hops::HopId;
pub use tables::linear::{Linear, LinearWriter, Sorted, SortedWriter};
pub use tables::poptrie::{Poptrie, PoptrieWriter};
pub use tables::radix::{Radix, RadixWriter};
pub use tables::range::{Ranges, RangesWriter};
pub use tables::rib::Order;
pub use tables::table::{RouteTable, Snapshot};
