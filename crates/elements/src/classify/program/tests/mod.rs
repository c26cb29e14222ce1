//! Programs against the expressions they are made of.

mod exhaustive;
mod naive;
mod random;
mod texts;
