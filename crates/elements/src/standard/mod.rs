//! Sources, sinks and the plain ways between.

pub mod discard;
pub mod strip;
pub mod tee;
