//! Elements that exist to be measured: what a graph does around them is known to the cycle, and no optimiser
//! knows what they do.

mod batchwise;
mod one_by_one;
mod packetwise;
mod pass;
mod singles;
