//! The graph of a configuration: what classes say of their ports, and how ports are connected.

mod class;
mod ports;
mod processing;
mod wiring;

pub use class::{Class, Flow, PortCount, PortKind, Processing};
pub(crate) use ports::{Counts, check_use, count};
pub(crate) use processing::{Kinds, resolve};
pub use wiring::Link;
pub(crate) use wiring::{NOWHERE, Wiring, make};
