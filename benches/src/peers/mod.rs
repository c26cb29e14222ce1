//! Other programs that do the same, run in turns with this one.

pub(crate) mod testpmd;
