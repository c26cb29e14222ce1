//! The classic format: a file header, then records.
//!
//! Source: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>, and for older versions, what Click and
//! libpcap do.

use super::error::{Error, ErrorKind};
use super::fields::{ByteOrder, Fields};
use super::input::{Found, Input};
use super::{LinkType, MAX_CAPTURED};

/// Microsecond timestamps.
pub(super) const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
/// Nanosecond timestamps.
pub(super) const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// Microsecond timestamps and longer record headers: Alexey Kuznetsov's "modified" pcap.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// Bytes of a file header.
pub(super) const FILE_HEADER: usize = 24;
/// Bytes of a record header.
pub(super) const RECORD_HEADER: usize = 16;
/// Additional bytes of a modified record header: interface, protocol, packet type.
const MODIFIED_EXTRA: usize = 8;

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Which of a record header's two lengths is the captured one.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    CapturedFirst,
    /// Before version 2.3.
    OriginalFirst,
    /// Version 2.3 has both: the captured one is the smaller.
    Either,
}

/// What the header of a classic file specifies about its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: ByteOrder,
    /// Nanoseconds per unit of the records' second timestamp field.
    unit: u64,
    record_header: usize,
    lengths: Lengths,
    pub(super) link_type: LinkType,
    pub(super) snap_len: u32,
}

impl Classic {
    /// Whether a file that starts with these bytes has this format.
    pub(super) fn recognises(magic: [u8; 4]) -> bool {
        Self::order(magic).is_some()
    }

    fn order(magic: [u8; 4]) -> Option<(ByteOrder, u32)> {
        [ByteOrder::Little, ByteOrder::Big]
            .map(|order| (order, Fields::new(&magic, order).u32(0)))
            .into_iter()
            .find(|(_, magic)| matches!(*magic, MAGIC_MICRO | MAGIC_NANO | MAGIC_MODIFIED))
    }

    /// Reads the file header.
    pub(super) fn open(input: &mut Input) -> Result<Classic, Error> {
        input.require(FILE_HEADER, "the file header")?;
        let magic = input.bytes().first_chunk().copied().unwrap_or_default();
        let (order, magic) =
            Self::order(magic).ok_or_else(|| input.error(ErrorKind::Magic { found: magic }))?;
        let fields = Fields::new(input.bytes(), order);
        let (major, minor) = (fields.u16(4), fields.u16(6));
        let classic = Classic {
            order,
            unit: if magic == MAGIC_NANO { 1 } else { 1000 },
            record_header: match magic {
                MAGIC_MODIFIED => RECORD_HEADER + MODIFIED_EXTRA,
                _ => RECORD_HEADER,
            },
            lengths: match minor {
                0..3 => Lengths::OriginalFirst,
                3 => Lengths::Either,
                4.. => Lengths::CapturedFirst,
            },
            // The bits above tell of a frame check sequence at the end of each packet.
            link_type: LinkType(fields.u32(20) & 0x03ff_ffff),
            snap_len: fields.u32(16),
        };
        if major != 2 {
            let found = format!("{major}.{minor}");
            return Err(input.error(ErrorKind::Version { found, expected: "2" }));
        }
        input.consume(FILE_HEADER);
        Ok(classic)
    }

    /// Reads the record at the start of the window.
    #[inline]
    pub(super) fn next(&self, input: &mut Input) -> Result<Option<Found>, Error> {
        if !input.require(self.record_header, "a record header")? {
            return Ok(None);
        }
        let fields = Fields::new(input.bytes(), self.order);
        let timestamp = u64::from(fields.u32(0)) * SECOND + u64::from(fields.u32(4)) * self.unit;
        let (first, second) = (fields.u32(8), fields.u32(12));
        let (captured, original_len) = match self.lengths {
            Lengths::OriginalFirst => (second, first),
            Lengths::Either if first > second => (second, first),
            Lengths::Either | Lengths::CapturedFirst => (first, second),
        };
        if captured > MAX_CAPTURED {
            return Err(input.error(ErrorKind::Length {
                part: "packet",
                found: captured.into(),
                expected: "at most 262144",
            }));
        }
        let (captured, start) = (captured as usize, self.record_header);
        input.require(start + captured, "a packet")?;
        Ok(Some(Found {
            timestamp,
            original_len,
            start,
            captured,
            total: start + captured,
            link_type: self.link_type,
            interface: 0,
        }))
    }
}
