//! Looking at packets and counting them.

pub mod average_counter;
pub mod counter;
mod rate;
