//! The mappings of flows, and rewriting packets by them.

pub(crate) mod addresses;
pub(crate) mod family;
pub(crate) mod flow_set;
pub(crate) mod flow_table;
mod sequence;
pub(crate) mod transport;
