//! The pcapng format: blocks in sections, packets of several interfaces.
//!
//! Source: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.

use super::classic::SECOND;
use super::error::{Error, ErrorKind};
use super::fields::{ByteOrder, Fields};
use super::input::{Found, Input, LARGEST_PART};
use super::{LinkType, MAX_CAPTURED};

/// Block types.
mod block {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    /// The packet block that is obsolete.
    pub(super) const OBSOLETE_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

/// Options of an interface description.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const TIMESTAMP_RESOLUTION: u16 = 9;
    pub(super) const TIMESTAMP_OFFSET: u16 = 14;
}

/// The bytes that every section header starts with, in either order.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The byte-order mark of a section header.
const BYTE_ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Bytes before a block's body (type and length) and after it (the length again).
const BLOCK_HEAD: usize = 8;
const BLOCK_TAIL: usize = 4;

/// The maximum number of interfaces of a section: each costs memory for as long as the section lasts.
const MAX_INTERFACES: usize = 1 << 16;

/// The sections and interfaces of a file, as far as it has been read.
#[derive(Debug)]
pub(super) struct PcapNg {
    order: ByteOrder,
    /// Those of the current section.
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// The maximum number of bytes captured of each packet; 0 for all.
    snap_len: u32,
    clock: Clock,
}

impl PcapNg {
    /// A reader for a file that starts with [`MAGIC`].
    pub(super) fn new() -> PcapNg {
        // The first section header corrects the order.
        PcapNg { order: ByteOrder::Little, interfaces: Vec::new() }
    }

    /// The link type and snap length of the section's first interface.
    pub(super) fn first_interface(&self) -> Option<(LinkType, u32)> {
        self.interfaces.first().map(|interface| (interface.link_type, interface.snap_len))
    }

    /// Reads blocks until the section has an interface, or a packet or the end comes first.
    pub(super) fn read_preamble(&mut self, input: &mut Input) -> Result<(), Error> {
        while self.interfaces.is_empty() {
            match self.peek(input)? {
                Some((kind, length)) if !is_packet(kind) => self.read_block(input, kind, length)?,
                _ => break,
            }
        }
        Ok(())
    }

    /// Reads the next packet; its block is then at the start of the window.
    pub(super) fn next(&mut self, input: &mut Input) -> Result<Option<Found>, Error> {
        while let Some((kind, length)) = self.peek(input)? {
            if is_packet(kind) {
                return self.read_packet(input, kind, length).map(Some);
            }
            self.read_block(input, kind, length)?;
        }
        Ok(None)
    }

    /// The type and length of the block at the start of the window, or `None` at the end of the file. A
    /// section header sets the byte order.
    fn peek(&mut self, input: &mut Input) -> Result<Option<(u32, u32)>, Error> {
        if !input.require(BLOCK_HEAD + BLOCK_TAIL, "a block header")? {
            return Ok(None);
        }
        let fields = Fields::new(input.bytes(), self.order);
        let kind = fields.u32(0);
        if kind == block::SECTION {
            self.order = match [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .find(|&order| Fields::new(input.bytes(), order).u32(8) == BYTE_ORDER_MARK)
            {
                Some(order) => order,
                None => {
                    let mark = input.bytes().get(8..).and_then(|bytes| bytes.first_chunk());
                    let found = mark.copied().unwrap_or_default();
                    return Err(input.error(ErrorKind::ByteOrder { found }));
                }
            };
        }
        let length = Fields::new(input.bytes(), self.order).u32(4);
        let (part, least, expected) = match kind {
            block::SECTION => ("section header", 28, "a multiple of 4, at least 28"),
            block::INTERFACE => ("interface description", 20, "a multiple of 4, at least 20"),
            block::SIMPLE_PACKET => ("simple packet block", 16, "a multiple of 4, at least 16"),
            block::ENHANCED_PACKET | block::OBSOLETE_PACKET => {
                ("packet block", 32, "a multiple of 4, at least 32")
            }
            _ => ("block", 12, "a multiple of 4, at least 12"),
        };
        if length < least || !length.is_multiple_of(4) {
            return Err(input.error(ErrorKind::Length { part, found: length.into(), expected }));
        }
        Ok(Some((kind, length)))
    }

    /// Makes the window hold a whole block and checks its second length.
    fn require_block(&self, input: &mut Input, length: u32) -> Result<usize, Error> {
        let size = length as usize;
        if size > LARGEST_PART {
            return Err(input.error(ErrorKind::Length {
                part: "block",
                found: length.into(),
                expected: "at most 524288 for a packet, an interface or a section",
            }));
        }
        input.require(size, "a block")?;
        let tail = Fields::new(input.bytes(), self.order).u32(size - BLOCK_TAIL);
        if tail != length {
            return Err(input.error(ErrorKind::Trailer { found: tail, expected: length }));
        }
        Ok(size)
    }

    /// Reads and skips a block that is not a packet.
    fn read_block(&mut self, input: &mut Input, kind: u32, length: u32) -> Result<(), Error> {
        match kind {
            block::SECTION => {
                let size = self.require_block(input, length)?;
                let fields = Fields::new(input.bytes(), self.order);
                // 1.2 is what some writers called 1.0.
                let version = (fields.u16(12), fields.u16(14));
                if !matches!(version, (1, 0 | 2)) {
                    let found = format!("{}.{}", version.0, version.1);
                    return Err(input.error(ErrorKind::Version { found, expected: "1.0" }));
                }
                self.interfaces.clear();
                input.consume(size);
            }
            block::INTERFACE => {
                let size = self.require_block(input, length)?;
                if self.interfaces.len() >= MAX_INTERFACES {
                    return Err(input.error(ErrorKind::Length {
                        part: "section with interfaces",
                        found: self.interfaces.len() as u64 + 1,
                        expected: "at most 65536",
                    }));
                }
                let body = input.bytes().get(..size - BLOCK_TAIL).unwrap_or_default();
                let fields = Fields::new(body, self.order);
                self.interfaces.push(Interface {
                    link_type: LinkType(fields.u16(8).into()),
                    snap_len: fields.u32(12),
                    clock: Clock::from_options(body.get(16..).unwrap_or_default(), self.order),
                });
                input.consume(size);
            }
            _ => self.skip_block(input, length)?,
        }
        Ok(())
    }

    /// Skips a block of any size that is not needed here.
    fn skip_block(&self, input: &mut Input, length: u32) -> Result<(), Error> {
        let offset = input.offset();
        let body = u64::from(length) - BLOCK_TAIL as u64;
        let passed = input.skip(body)?;
        let tail_len = input.available(BLOCK_TAIL)?;
        if tail_len < BLOCK_TAIL {
            let found = passed + tail_len as u64;
            let kind = ErrorKind::Truncated { part: "a block", expected: length.into(), found };
            return Err(Error::at(input.name(), offset, kind));
        }
        let tail = Fields::new(input.bytes(), self.order).u32(0);
        if tail != length {
            let kind = ErrorKind::Trailer { found: tail, expected: length };
            return Err(Error::at(input.name(), offset, kind));
        }
        input.consume(BLOCK_TAIL);
        Ok(())
    }

    /// Reads a packet block, which stays at the start of the window.
    fn read_packet(&self, input: &mut Input, kind: u32, length: u32) -> Result<Found, Error> {
        let size = self.require_block(input, length)?;
        let fields = Fields::new(input.bytes(), self.order);
        let (interface, start) = match kind {
            block::ENHANCED_PACKET => (fields.u32(8), 28),
            block::OBSOLETE_PACKET => (fields.u16(8).into(), 28),
            _ => (0, 12),
        };
        let Some(described) =
            usize::try_from(interface).ok().and_then(|interface| self.interfaces.get(interface))
        else {
            let expected = self.interfaces.len();
            return Err(input.error(ErrorKind::Interface { found: interface, expected }));
        };
        let room = (size - BLOCK_TAIL - start) as u64;
        let (timestamp, captured, original_len) = if kind == block::SIMPLE_PACKET {
            let original_len = fields.u32(8);
            let snap_len = match described.snap_len {
                0 => u32::MAX,
                snap_len => snap_len,
            };
            (0, original_len.min(snap_len), original_len)
        } else {
            let units = u64::from(fields.u32(12)) << 32 | u64::from(fields.u32(16));
            (described.clock.nanoseconds(units), fields.u32(20), fields.u32(24))
        };
        if u64::from(captured) > room || captured > MAX_CAPTURED {
            return Err(input.error(ErrorKind::Length {
                part: "packet",
                found: captured.into(),
                expected: "no more than its block has room for, and at most 262144",
            }));
        }
        Ok(Found {
            timestamp,
            original_len,
            start,
            captured: captured as usize,
            total: size,
            link_type: described.link_type,
            interface,
        })
    }
}

fn is_packet(kind: u32) -> bool {
    matches!(kind, block::ENHANCED_PACKET | block::SIMPLE_PACKET | block::OBSOLETE_PACKET)
}

/// The clock of an interface's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// The `if_tsresol` option: 10 to the power of minus this, or 2 with the highest bit set.
    resolution: u8,
    /// Seconds to add to every timestamp.
    offset: i64,
}

impl Clock {
    fn from_options(mut options: &[u8], order: ByteOrder) -> Clock {
        let mut clock = Clock { resolution: 6, offset: 0 };
        while options.len() >= 4 {
            let head = Fields::new(options, order);
            let (code, length) = (head.u16(0), usize::from(head.u16(2)));
            let value = options.get(4..4 + length).unwrap_or_default();
            match (code, value) {
                (option::END, _) => break,
                (option::TIMESTAMP_RESOLUTION, &[resolution]) => clock.resolution = resolution,
                (option::TIMESTAMP_OFFSET, value) if value.len() == 8 => {
                    clock.offset = Fields::new(value, order).u64(0).cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        }
        clock
    }

    /// Nanoseconds since the epoch. Times before it, or more than 584 years after it, are moved to the end of
    /// the range.
    fn nanoseconds(self, units: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let units = u128::from(units);
        let nanoseconds = if self.resolution & 0x80 != 0 {
            (units * u128::from(SECOND)) >> power
        } else if power <= 9 {
            units * 10u128.pow(9 - power)
        } else {
            10u128.checked_pow(power - 9).map_or(0, |divisor| units / divisor)
        };
        // At most 2^64 * 10^9: no overflow below.
        let offset = i128::from(self.offset) * i128::from(SECOND);
        let since_epoch = nanoseconds.cast_signed() + offset;
        since_epoch.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_every_resolution() {
        for (resolution, offset, units, nanoseconds) in [
            (6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
            (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
            (0, 0, 1_700_000_000, 1_700_000_000_000_000_000),
            (3, 2, 1_500, 3_500_000_000),
            (12, 0, 1_999, 1),
            (127, 0, u64::MAX, 0),
            (0x80, 0, 7, 7_000_000_000),
            (0x80 | 10, 0, 1536, 1_500_000_000),
            (0xff, 0, u64::MAX, 0),
            (0, i64::MIN, 1, 0),
            (0, 0, u64::MAX, u64::MAX),
            (9, -1, 1_000_000_001, 1),
            (9, -2, 1_000_000_001, 0),
            (9, i64::MAX, u64::MAX, u64::MAX),
        ] {
            let clock = Clock { resolution, offset };
            assert_eq!(clock.nanoseconds(units), nanoseconds, "{clock:?} {units}");
        }
    }

    #[test]
    fn options_of_an_interface() {
        let name = [2, 0, 3, 0, b'e', b't', b'h', 0];
        let resolution = [9, 0, 1, 0, 9, 0, 0, 0];
        let offset = [14, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        let default = Clock { resolution: 6, offset: 0 };
        let read = |options: &[&[u8]]| Clock::from_options(&options.concat(), ByteOrder::Little);
        assert_eq!(read(&[]), default);
        assert_eq!(read(&[&name, &resolution, &offset]), Clock { resolution: 9, offset: 5 });
        assert_eq!(read(&[&[0; 4], &resolution]), default, "nothing counts after the end");
        assert_eq!(read(&[&[9, 0, 2, 0, 9, 0, 0, 0]]), default, "wrong length");
        assert_eq!(read(&[&[9, 0, 200, 0, 9, 0]]), default, "cut short");
    }
}
