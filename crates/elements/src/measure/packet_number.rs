//! The number that NumberPacket writes into packets, and its position.

use millrace_core::{Args, View};

/// The position and the byte order of the number.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberPlace {
    pub(super) offset: usize,
    network_order: bool,
}

/// Bytes of a number.
pub(super) const NUMBER_LEN: usize = 8;

/// After the Ethernet and IPv4 headers and 6 more bytes.
const DEFAULT_OFFSET: u32 = 40;
/// The maximum offset.
const MOST: u32 = 65_000;

impl NumberPlace {
    /// Reads OFFSET and NET_ORDER; `kind` says how OFFSET is given.
    pub(super) fn configure(args: &mut Args<'_>, kind: millrace_core::args::Kind) -> Self {
        let offset = args.in_range("OFFSET", kind, 0..=MOST).unwrap_or(DEFAULT_OFFSET);
        Self::at(args, offset as usize)
    }

    /// Reads NET_ORDER, for a number at a known offset.
    pub(super) fn at(args: &mut Args<'_>, offset: usize) -> Self {
        Self { offset, network_order: args.keyword("NET_ORDER", false) }
    }

    /// The number in a packet's bytes; `None` if there are too few.
    pub(super) fn read(self, data: &[u8]) -> Option<u64> {
        let bytes = *data.get(self.offset..)?.first_chunk()?;
        Some(if self.network_order { u64::from_be_bytes(bytes) } else { u64::from_ne_bytes(bytes) })
    }

    /// Writes a number into a packet, which is extended if necessary. Returns false if there is no room.
    pub(super) fn write(self, packet: &mut View, number: u64) -> bool {
        let end = self.offset + NUMBER_LEN;
        if packet.len() < end {
            packet.append(end - packet.len()).fill(0);
        }
        let Some(place) = packet.data_mut().get_mut(self.offset..end) else { return false };
        let bytes = if self.network_order { number.to_be_bytes() } else { number.to_ne_bytes() };
        place.copy_from_slice(&bytes);
        true
    }
}
