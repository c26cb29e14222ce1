//! Reports what elements and devices did, as the model has it: the summary.

mod number;
mod summary;
mod table;

pub(crate) use number::{mean, scaled};
pub(crate) use summary::summary;
