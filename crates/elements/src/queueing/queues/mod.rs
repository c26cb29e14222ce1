//! Queues: they store pushed packets until the packets are pulled.

pub mod cpu_queue;
pub mod front_drop_queue;
pub mod mixed_queue;
pub mod ms_queue;
pub mod notifier_queue;
pub mod queue;
pub mod quick_note_queue;
pub mod simple_queue;
pub mod store;
pub mod thread_safe_queue;
