//! What the socket elements share: arguments, receiving, and sending without blocking.

pub(crate) mod arguments;
pub(crate) mod intake;
pub(crate) mod outlet;
