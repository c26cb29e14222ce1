//! The engine.

pub mod args;
pub mod names;
pub mod net;
