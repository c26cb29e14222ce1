//! Batches on their way to a device: packets gathered into the columns of a slot, and back.

mod cpu;
mod gather;
mod outcome;
mod scatter;

pub use gather::Gather;
pub use outcome::{Outcome, Part};
