//! What the socket elements share: arguments, and sending without blocking.

pub(crate) mod arguments;
pub(crate) mod outlet;
