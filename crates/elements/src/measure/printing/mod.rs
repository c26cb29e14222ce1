//! What the printing elements share: where lines go, and how contents look.

pub(crate) mod contents;
pub(crate) mod printer;
