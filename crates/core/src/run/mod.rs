//! From a configuration to running threads, and to their end.
//!
//! [`check`] makes a configured router of a graph, [`initialize`] an [`Engine`] of that, and [`Engine::run`] runs
//! it until its [`Phase`](crate::Phase) says that it ends; then elements finish what they have under way and are
//! cleaned up, or another router takes its place ([`Router::replace`](crate::Router::replace)).

mod build;
mod drain;
mod drained;
mod elements;
mod engine;
mod files;
mod roster;
mod start;
mod swap;
mod worker;

pub use build::{FEATURES, Options, check};
pub use elements::Configured;
pub use engine::{Engine, Outcome};
pub use start::{initialize, initialize_beside};
pub use swap::Swapped;
