//! Who drops before a queue is full.
