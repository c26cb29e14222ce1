//! Plans as a whole: from packets to columns, through stages, and back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod devices;
mod graphs;
mod packets;
mod regions;
mod sizes;
mod stages;
