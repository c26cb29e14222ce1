//! Regions, also called slices: the bytes of each packet that a stage reads and writes.
//!
//! A region is located in each packet, because VLAN tags, IP options and IPv6 extension headers move what follows
//! them. See [`Layers`] for the rules, and [`union`] for how the regions of several stages become columns.

mod layers;
pub mod union;

pub(crate) use layers::view_bytes_mut;
pub use layers::{Layers, MAX_EXTENSIONS, View};

use std::fmt;

/// The base of a region's offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The packet's annotation area, 48 bytes, which every packet has. The destination address is at 0 (4 bytes, or
    /// 16 for IPv6). If all regions of a plan have this base, no packet's bytes are read.
    #[default]
    Annotation,
    /// The Ethernet header.
    Ethernet,
    /// The network header, after all VLAN tags. Offset -2 is the innermost EtherType.
    Network,
    /// The payload of the network header: after IP options; for IPv6, after the fixed header.
    NetworkPayload,
    /// The transport header: as `NetworkPayload` for IPv4, after extension headers for IPv6. Absent in later
    /// fragments.
    Transport,
    /// The payload of the transport header; in later fragments, the payload of the fragment.
    TransportPayload,
}

impl Base {
    /// All bases.
    pub const ALL: [Self; 6] = [
        Self::Annotation,
        Self::Ethernet,
        Self::Network,
        Self::NetworkPayload,
        Self::Transport,
        Self::TransportPayload,
    ];

    /// The name, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Ethernet => "Ethernet",
            Self::Network => "network",
            Self::NetworkPayload => "network payload",
            Self::Transport => "transport",
            Self::TransportPayload => "transport payload",
        }
    }

    /// The minimum distance of this base after another one in the same packet; `None` if they never share bytes.
    pub(crate) fn least_distance(self, from: Self) -> Option<i32> {
        const LEAST: [i32; 6] = [0, 0, 14, 34, 34, 34];
        if self == Self::Annotation || from == Self::Annotation {
            return None;
        }
        Some(LEAST[self as usize] - LEAST[from as usize])
    }
}

/// The end of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This number of bytes, padded with zeros if the packet ends earlier.
    Bytes(u16),
    /// To the end of the packet, as packed payload. If there is an IP packet, to its end: without Ethernet padding.
    ToEnd,
}

/// How a stage accesses the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// They are copied to the device.
    Read,
    /// They are copied back. The kernel writes all of them that the packet has.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// True if the stage changes the bytes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// A region of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The base of the offset.
    pub base: Base,
    /// The offset of the first byte.
    pub offset: i16,
    /// The end.
    pub extent: Extent,
    /// The access.
    pub access: Access,
}

impl Region {
    /// A region of `bytes` bytes that is read.
    pub const fn read(base: Base, offset: i16, bytes: u16) -> Self {
        Self { base, offset, extent: Extent::Bytes(bytes), access: Access::Read }
    }

    /// A region to the packet's end that is read.
    pub const fn to_end(base: Base, offset: i16) -> Self {
        Self { base, offset, extent: Extent::ToEnd, access: Access::Read }
    }

    /// The same region with another access.
    pub const fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// How deep a packet must be parsed to locate the region.
    pub(crate) fn depth(&self) -> Base {
        match self.extent {
            // The end of the IP packet is in its header.
            Extent::ToEnd => self.base.max(Base::Network),
            Extent::Bytes(_) => self.base,
        }
    }
}

/// A region as text: `network 12/4`, `transport payload 0/ to the end`; written regions with `w` or `rw`.
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.base.name(), self.offset)?;
        match self.extent {
            Extent::Bytes(bytes) => write!(f, "/{bytes}")?,
            Extent::ToEnd => f.write_str("-")?,
        }
        match self.access {
            Access::Read => Ok(()),
            Access::Write => f.write_str(" w"),
            Access::ReadWrite => f.write_str(" rw"),
        }
    }
}
