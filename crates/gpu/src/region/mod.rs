//! Slices, or regions of interest: which bytes of each packet a stage reads and writes.
//!
//! A region is resolved for each packet: VLAN tags, IP options and IPv6 extension headers move what lies behind them. See
//! [`Layers`] for the rules, and [`union`] for how the regions of many stages become columns.

mod layers;
pub mod union;

pub(crate) use layers::view_bytes_mut;
pub use layers::{Layers, MAX_EXTENSIONS, View};

use std::fmt;

/// What a region's offset counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The packet's annotation area, 48 bytes, which every packet has whole; the destination address is at 0 (4 bytes,
    /// or 16 for IPv6). A plan whose regions are all of this base touches no packet's bytes.
    #[default]
    Annotation,
    /// The Ethernet header.
    Ethernet,
    /// The network header, behind all VLAN tags: offset -2 is the innermost EtherType.
    Network,
    /// What the network header carries: behind IP options; for IPv6 behind the fixed header.
    NetworkPayload,
    /// The transport header: as `NetworkPayload` for IPv4, behind extension headers for IPv6; none in later fragments.
    Transport,
    /// What the transport header carries; in later fragments, what the fragment carries.
    TransportPayload,
}

impl Base {
    /// All of them.
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

    /// How far this base lies behind another of the packet at least; none when they never lie in the same bytes.
    pub(crate) fn least_distance(self, from: Self) -> Option<i32> {
        const LEAST: [i32; 6] = [0, 0, 14, 34, 34, 34];
        if self == Self::Annotation || from == Self::Annotation {
            return None;
        }
        Some(LEAST[self as usize] - LEAST[from as usize])
    }
}

/// How far a region reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// So many bytes; where the packet ends earlier, zeros.
    Bytes(u16),
    /// To the end of the packet (of the IP packet, when there is one: no Ethernet padding): packed payload.
    ToEnd,
}

/// What is done with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// They are copied to the device.
    Read,
    /// They are copied back; the kernel writes all that the packet has of them.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether the stage changes the bytes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// A slice of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// What the offset counts from.
    pub base: Base,
    /// The first byte.
    pub offset: i16,
    /// How far it reaches.
    pub extent: Extent,
    /// What is done with it.
    pub access: Access,
}

impl Region {
    /// A region of `bytes` bytes that is read.
    pub const fn read(base: Base, offset: i16, bytes: u16) -> Self {
        Self { base, offset, extent: Extent::Bytes(bytes), access: Access::Read }
    }

    /// A region up to the packet's end that is read.
    pub const fn to_end(base: Base, offset: i16) -> Self {
        Self { base, offset, extent: Extent::ToEnd, access: Access::Read }
    }

    /// The same region with another access.
    pub const fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// How deep a packet must be parsed to resolve the region.
    pub(crate) fn depth(&self) -> Base {
        match self.extent {
            // Where the IP packet ends is in its header.
            Extent::ToEnd => self.base.max(Base::Network),
            Extent::Bytes(_) => self.base,
        }
    }
}

/// `network 12/4`, `transport payload 0/ to the end`; written slices with `w` or `rw`.
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
