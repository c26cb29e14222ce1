//! Classifiers.
