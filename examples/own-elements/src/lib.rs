//! Elements in a crate of one's own.
//!
//! Classes register themselves when the crate is linked into a program; see `main.rs`.

pub mod every_nth;
pub mod lifo_queue;
