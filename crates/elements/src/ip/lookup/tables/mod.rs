//! The structures in which routes are looked up, and how they change while packets pass.

mod blocks;
pub(crate) mod dir_24_8;
mod entry;
pub(crate) mod fib;
pub(crate) mod hops;
pub(crate) mod linear;
mod memory;
pub(crate) mod poptrie;
pub(crate) mod radix;
pub(crate) mod range;
pub(crate) mod rib;
mod slotted;
mod sweep;
pub(crate) mod table;
#[cfg(test)]
mod tests;
