//! The patterns or rules of a classifier: their arguments, and exchanging them while packets pass.

pub(crate) mod arguments;
pub(crate) mod in_force;
pub(crate) mod states;
