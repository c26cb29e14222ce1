//! Memory for slots and tables.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes aligned to 64.
pub(crate) struct Block(Box<[Line]>);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Block {
    /// `bytes` zeros, rounded up to a multiple of 64.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![Line([0; 64]); bytes.div_ceil(64)].into_boxed_slice())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}
