//! Elements for Millrace.
//!
//! Classes register themselves when the crate is linked into a program; see `main.rs`.

// These elements process packets and need nothing else, so the sandbox may hold.
millrace_core::declares_needs!();

pub mod skeleton_element;
