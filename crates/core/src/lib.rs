//! The engine.

pub mod args;
pub mod memory;
pub mod names;
pub mod net;
pub mod time;

pub use memory::{Arena, Batch, Packet, PacketType};
pub use time::Timestamp;
