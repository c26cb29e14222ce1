//! Queues, the elements that move packets out of them, and those that limit rates or drop excess packets.

pub mod aqm;
pub(crate) mod interval;
pub mod meters;
pub mod queues;
pub mod schedulers;
pub mod shapers;
mod storage;
pub mod unqueues;
