//! Intrusion detection: searches payloads for patterns.

pub(crate) mod alarm;
pub mod ids_matcher;
pub(crate) mod payload;
pub(crate) mod rules;
mod streams;
#[cfg(test)]
mod streams_tests;
#[cfg(test)]
mod tests;
pub(crate) mod watch;
