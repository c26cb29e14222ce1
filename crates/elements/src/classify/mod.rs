//! Classifiers.

pub mod program;
