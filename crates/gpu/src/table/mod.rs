//! The tables that kernels search, built from lists of routes.
//!
//! A table is a flat array of 32-bit words. Positions in it are word offsets from its start. The submodules describe
//! the layouts, for the kernels of the same names.
//!
//! Routes lead to **hops**, numbered from 0. The result of a lookup is a hop. Each hop has a decision: the output of
//! the stage that its packets take, or [`DROP`](crate::kernel::DROP). Several hops can share an output.

mod changes;
mod check;
mod lpm4;
mod lpm6;
#[cfg(test)]
pub(crate) mod tests;
mod words;

pub use changes::Changes;
pub use check::{Fault, check};
pub use lpm4::Lpm4;
pub use lpm6::Lpm6;

/// A route: addresses whose first `length` bits are those of `prefix` lead to `hop`. The other bits of `prefix` are
/// ignored. Of several routes with the same prefix, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<A> {
    /// An address, as a number: `u32::from(Ipv4Addr)`, `u128::from(Ipv6Addr)`.
    pub prefix: A,
    /// The length of the prefix in bits.
    pub length: u8,
    /// The hop's number.
    pub hop: u32,
}

/// The decisions of a table's hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decisions<'a> {
    /// The output of each hop, or [`DROP`](crate::kernel::DROP).
    pub hops: &'a [u32],
    /// The output of packets without a route, or [`DROP`](crate::kernel::DROP).
    pub miss: u32,
}

/// Why a table cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A prefix is longer than an address.
    #[error("a prefix of {length} bits is longer than the {most} of an address")]
    PrefixLength {
        /// Its length.
        length: u8,
        /// The maximum length.
        most: u8,
    },
    /// A route's hop is not in the list.
    #[error("a route leads to hop {hop}, but there are {hops} hops")]
    Hop {
        /// The number.
        hop: u32,
        /// The number of hops.
        hops: usize,
    },
    /// The table would be larger than [`MAX_BYTES`].
    #[error("the table would take {bytes} bytes; the maximum is {MAX_BYTES}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}

/// Maximum size of a table in bytes. While a table replaces another one, both are on the device.
pub const MAX_BYTES: usize = 256 << 20;

/// The number of words of a header.
const HEADER: usize = 16;

/// An entry without a hop. An entry with a hop is the hop's number + 1.
const NO_ROUTE: u32 = 0;

/// The top bit of an entry: it leads to another part of the table instead.
const MORE: u32 = 1 << 31;

fn check_size(words: usize) -> Result<(), TableError> {
    let bytes = words.saturating_mul(4);
    if bytes > MAX_BYTES { Err(TableError::TooLarge { bytes }) } else { Ok(()) }
}

/// # Errors
/// The prefix is too long, or the hop is none of `hops`.
fn check_route<A>(route: &Route<A>, most: u8, hops: usize) -> Result<(), TableError> {
    if route.length > most {
        return Err(TableError::PrefixLength { length: route.length, most });
    }
    if route.hop as usize >= hops {
        return Err(TableError::Hop { hop: route.hop, hops });
    }
    Ok(())
}
