//! Programs against the expressions they are made of.

mod drawn;
mod exhaustive;
mod many;
mod naive;
mod random;
mod texts;
