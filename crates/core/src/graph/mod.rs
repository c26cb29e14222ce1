//! The graph of a configuration: what classes say of their ports, and how ports are connected.

mod class;
mod depth;
mod links;
mod ports;
mod processing;
mod wiring;

pub use class::{Class, Flow, PortCount, PortKind, Processing};
pub(crate) use depth::check_depth;
pub(crate) use links::Links;
pub(crate) use ports::{Counts, check_use, count};
pub(crate) use processing::{Kinds, resolve};
pub use wiring::Link;
pub(crate) use wiring::{NOWHERE, TAPPED, Wiring, make};
