//! The element library: one element, one file.
