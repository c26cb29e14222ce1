//! Fuzz targets of Millrace.
//!
//! A [`Target`] takes bytes and does with them what an attacker, or a user who makes a mistake, might do. Nothing may
//! panic, each element must account for its packets, and an input must not take more processor time or memory than its
//! length justifies ([`judge`]). libFuzzer looks for bytes that break this (`cargo xtask fuzz`); a short test runs each
//! target on a fixed series of inputs and on the corpora.
//!
//! What elements could do to the machine is forbidden by the kernel while targets run ([`guard`]), so that every class
//! takes part.

mod bench;
mod draw;
pub mod guard;
pub mod judge;
mod targets;

pub use targets::{TARGETS, Target};
