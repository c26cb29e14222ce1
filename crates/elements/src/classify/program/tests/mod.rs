//! Compares programs with the expressions that they are compiled from.

mod drawn;
mod exhaustive;
mod many;
mod naive;
mod random;
mod texts;
