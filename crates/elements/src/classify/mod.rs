//! Classifiers.

mod arguments;
pub mod classifier;
mod in_force;
pub mod ip_classifier;
pub mod ip_filter;
mod ip_packet;
pub mod program;
mod rule_list;
pub mod sdn_classifier;
pub(crate) mod sdn_counts;
pub(crate) mod sdn_rules;
