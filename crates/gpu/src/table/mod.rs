//! The tables that kernels search, built from plain lists.
//!
//! A table is a flat array of 32-bit words in which every place is told as a word offset from its beginning. Modules of this
//! one say what is where, for the kernels of the same names.
//!
//! Routes lead to **hops**, numbered from 0. A hop is what the result of a lookup names; each has a decision, the output of the
//! stage that its packets take, or [`DROP`](crate::kernel::DROP). Several hops can share an output.

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

/// A route: addresses whose first `length` bits are those of `prefix` go to `hop`. Bits of `prefix` behind these do not
/// matter. Of several routes of the same prefix the last one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<A> {
    /// An address, as a number: `u32::from(Ipv4Addr)`, `u128::from(Ipv6Addr)`.
    pub prefix: A,
    /// How many bits of it count.
    pub length: u8,
    /// The hop's number.
    pub hop: u32,
}

/// Where the packets of a table's hops go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decisions<'a> {
    /// The output of each hop, or [`DROP`](crate::kernel::DROP).
    pub hops: &'a [u32],
    /// The output of packets without a route, or [`DROP`](crate::kernel::DROP).
    pub miss: u32,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A prefix is longer than an address.
    #[error("a prefix of {length} bits is longer than the {most} of an address")]
    PrefixLength {
        /// Its length.
        length: u8,
        /// The longest there is.
        most: u8,
    },
    /// A route's hop is not in the list.
    #[error("a route leads to hop {hop}, but there are {hops} hops")]
    Hop {
        /// The number.
        hop: u32,
        /// How many there are.
        hops: usize,
    },
    /// The table would be larger than [`MAX_BYTES`].
    #[error("the table would take {bytes} bytes, and {MAX_BYTES} is the most")]
    TooLarge {
        /// What it would take.
        bytes: usize,
    },
}

/// Most bytes of a table: several are on the device while one takes the place of another.
pub const MAX_BYTES: usize = 256 << 20;

/// Words of a header.
const HEADER: usize = 16;

/// An entry that leads to no hop. One that leads to a hop is its number + 1.
const NO_ROUTE: u32 = 0;

/// The top bit of an entry: it leads to more of the table instead.
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
