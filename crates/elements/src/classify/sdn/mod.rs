//! The rules of classifiers with seven fields, and their counts.

pub(crate) mod counts;
pub(crate) mod rules;
