//! The host backend: the kernels compiled for the processor, in two modes.
//!
//! * [`Fast`] runs a batch at once, on the slot itself. For machines without a GPU, and for simulated time: nothing of it
//!   depends on a clock or a thread.
//! * [`Simulator`] behaves as a GPU does, and worse: it has memory of its own, does things late and in any order, and fails
//!   when [told to](Faults). For tests of everything that stands on a device.

mod block;
mod fast;
mod launch;
mod simulator;

pub use fast::Fast;
pub use simulator::{Call, Fault, Faults, Point, Settings, Simulator};
