//! Queues and what moves packets out of them.
