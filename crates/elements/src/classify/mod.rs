//! Classifiers.

mod arguments;
pub mod classifier;
pub mod ip_classifier;
pub mod ip_filter;
mod ip_packet;
pub mod program;
