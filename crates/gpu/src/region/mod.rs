//! Slices, or regions of interest: which bytes of each packet a stage reads and writes.
//!
//! A region is resolved for each packet: VLAN tags, IP options and IPv6 extension headers move what lies behind them.

/// What a region's offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The packet's annotations, which every packet has whole (destination address: where core keeps it).
    Annotation,
    /// The Ethernet header.
    Ethernet,
    /// The network header, behind all VLAN tags: offset -2 is the innermost EtherType.
    Network,
    /// What the network header carries: behind IP options; for IPv6 behind the fixed header.
    NetworkPayload,
    /// The transport header: as `NetworkPayload` for IPv4, behind extension headers for IPv6; none in later fragments.
    Transport,
    /// What the transport header carries.
    TransportPayload,
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
    /// They are copied back.
    Write,
    /// Both.
    ReadWrite,
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
}
