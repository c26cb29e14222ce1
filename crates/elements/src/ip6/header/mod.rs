//! The IPv6 headers that elements put in front of packets.

pub(crate) mod outer;
