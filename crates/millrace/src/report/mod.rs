//! Reports what elements and devices did, as the model has it: a table each second, a summary.

mod live;
mod number;
mod summary;
mod table;

pub(crate) use live::Live;
pub(crate) use summary::summary;
