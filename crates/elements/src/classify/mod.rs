//! Classifiers.

pub mod classifier;
pub mod ip_classifier;
pub mod ip_filter;
pub(crate) mod patterns;
pub mod program;
pub(crate) mod sdn;
pub mod sdn_classifier;
