//! Queues, what moves packets out of them and at which rate, and who drops when there are too many.

pub mod aqm;
pub(crate) mod interval;
pub mod meters;
pub mod queues;
pub mod schedulers;
pub mod shapers;
pub mod unqueues;
