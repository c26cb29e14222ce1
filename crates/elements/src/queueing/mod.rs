//! Queues and what moves packets out of them.

mod chunks;
pub mod cpu_queue;
pub mod front_drop_queue;
pub mod mixed_queue;
pub mod queue;
pub mod rated_unqueue;
mod store;
pub(crate) mod token_bucket;
pub mod unqueue;
