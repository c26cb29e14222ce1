//! The inputs of a scheduler: packets pulled ahead, and their order.

pub(crate) mod heap;
pub(crate) mod lane;
