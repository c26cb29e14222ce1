//! Intrusion detection: searches payloads for patterns.

pub(crate) mod detection;
pub mod ids_matcher;
#[cfg(test)]
mod tests;
