//! Packets for the tests of elements, by family.

pub(crate) mod ip;
pub(crate) mod ip6;
