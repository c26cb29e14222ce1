//! Intrusion detection: searches payloads for patterns.

pub(crate) mod detection;
pub mod ids_matcher;
pub mod regex_matcher;
#[cfg(test)]
mod tests;
