//! Rules over seven fields of a packet, and the classifier that finds the first one that holds.

mod key;
mod parse;
mod rule;

pub use key::Key;
pub use parse::RuleError;
pub use rule::{Action, Masked, Ports, Rule, RuleSet};
