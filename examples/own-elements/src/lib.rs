//! Elements in a crate of one's own.
//!
//! Classes register themselves when the crate is linked into a program; see `main.rs`.

// These elements process packets and need nothing else, so the sandbox may hold.
millrace_core::declares_needs!();

pub mod every_nth;
pub mod lifo_queue;
