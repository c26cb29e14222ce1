//! The IPv4 header: reading and writing its fields, and the headers of tunnels.

pub(crate) mod outer;
pub(crate) mod tos_bits;
pub(crate) mod view;
