//! Receive and transmit queues.
