//! NumberPacket - writes a sequence number into packets
//!
//! # Synopsis
//! `NumberPacket([OFFSET, keyword NET_ORDER])`
//!
//! # Description
//! Writes an eight-byte number into each packet, starting at 0. A packet that is too short is extended, and the length
//! field of its IP header, if its position is known, is updated. Checksums are not changed.
//!
//! # Arguments
//! - OFFSET: position of the number, in bytes from the start of the packet. Positional, default 40.
//! - NET_ORDER: whether to write the number in network byte order instead of the host's. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count` (read): the number of the next packet.
//! - `reset` (write): restarts at 0.
//!
//! # Drops
//! - no buffer: the packet cannot be extended far enough for the number.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 9) -> NumberPacket -> c :: CheckNumberPacket(COUNT 9) -> Discard;
//! ```
//!
//! # See also
//! CheckNumberPacket, RecordTimestamp, TimestampDiff

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Args, Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct NumberPacket {
    place: NumberPlace,
    next: AtomicU64,
}

register!(NumberPacket, "number_packet.rs");

impl Element for NumberPacket {
    const CLASS: Class = Class::new("NumberPacket", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let place = NumberPlace::configure(&mut setup.args, Kind::Positional);
        setup.args.complete()?;
        Ok(Self { place, next: 0.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |it, _| it.next.load(Relaxed));
        handlers.write("reset", |it, _| {
            it.next.store(0, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for NumberPacket {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let end = self.place.offset + NUMBER_LEN;
        let grows = packet.len() < end;
        if !self.place.write(packet, self.next.fetch_add(1, Relaxed)) {
            return Way::drop(Reason::NoBuffer);
        }
        if grows {
            let in_front = packet.network_offset().unwrap_or(0);
            let header = packet.network_data_mut().and_then(Ipv4Header::view_mut);
            if let (Some((header, _)), Ok(len)) = (header, u16::try_from(end - in_front)) {
                header.total_len = len.into();
            }
        }
        Way::ON
    }
}

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
