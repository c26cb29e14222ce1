//! Queues and what moves packets out of them.

pub mod cpu_queue;
pub mod queue;
pub mod rated_unqueue;
pub(crate) mod token_bucket;
pub mod unqueue;
