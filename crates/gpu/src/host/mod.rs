//! The host backend: the kernels compiled for the processor, in two modes.
//!
//! * [`Fast`] runs a batch at once, on the slot itself. It is for machines without a GPU, and for virtual time,
//!   because it depends neither on a clock nor on a thread.
//! * [`Simulator`] imitates a GPU in difficult conditions: it has its own memory, executes steps late and in any
//!   order, and fails when [told to](Faults). It is for tests of the code that uses a device.

mod block;
mod fast;
mod launch;
mod simulator;

pub use fast::Fast;
pub use simulator::{Call, Fault, Faults, Point, Settings, Simulator};
