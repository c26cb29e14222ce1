//! Reports what elements and devices did: counts, a table each second, a summary.

mod devices;
mod figures;
mod json;
mod live;
mod number;
mod summary;
mod table;

pub(crate) use devices::{Ledger, Observed};
pub(crate) use figures::{Figures, Origin};
pub(crate) use json::json;
pub(crate) use live::Live;
pub(crate) use summary::summary;
