//! Active queue management: elements that drop packets before a queue is full.

pub mod adaptive_red;
pub mod codel;
pub mod pi;
mod random_early;
pub mod red;
mod watched;
