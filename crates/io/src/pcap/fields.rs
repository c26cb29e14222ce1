//! Numbers in either byte order.

/// The byte order of a file: that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The numbers of a header.
///
/// The reader must make sure that the header is complete; a number past the end of the bytes reads as zero.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Fields<'a> {
        Fields { bytes, order }
    }

    #[inline]
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let bytes: Option<&[u8; N]> = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        debug_assert!(bytes.is_some(), "field at {at} of {} bytes", self.bytes.len());
        bytes.copied().unwrap_or([0; N])
    }

    #[inline]
    pub(super) fn u16(self, at: usize) -> u16 {
        match self.order {
            ByteOrder::Little => u16::from_le_bytes(self.array(at)),
            ByteOrder::Big => u16::from_be_bytes(self.array(at)),
        }
    }

    #[inline]
    pub(super) fn u32(self, at: usize) -> u32 {
        match self.order {
            ByteOrder::Little => u32::from_le_bytes(self.array(at)),
            ByteOrder::Big => u32::from_be_bytes(self.array(at)),
        }
    }

    #[inline]
    pub(super) fn u64(self, at: usize) -> u64 {
        match self.order {
            ByteOrder::Little => u64::from_le_bytes(self.array(at)),
            ByteOrder::Big => u64::from_be_bytes(self.array(at)),
        }
    }
}
