//! Elements for measurements. Their own cost is known exactly, and no optimiser knows what they do.

mod batchwise;
mod one_by_one;
mod packetwise;
mod pass;
mod singles;
