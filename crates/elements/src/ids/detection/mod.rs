//! Finding the patterns of rules in payloads and streams, and reporting them.

mod alarm;
pub(crate) mod payload;
pub(crate) mod rules;
pub(crate) mod streams;
#[cfg(test)]
mod streams_tests;
pub(crate) mod watch;
