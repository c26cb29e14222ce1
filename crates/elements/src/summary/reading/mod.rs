//! Reading summaries: lines of a file, and the packets they describe.

pub(crate) mod feed;
pub(crate) mod lines;
pub(crate) mod reader;
mod several;
pub(crate) mod told;
