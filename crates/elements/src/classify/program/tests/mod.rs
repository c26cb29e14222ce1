//! Programs against the expressions they are made of.

mod exhaustive;
mod many;
mod naive;
mod random;
mod texts;
