//! What the offsets of a program count from.

/// Offset of the MAC header in an IP program; the header starts two bytes behind it, so that the
/// network header is aligned.
pub const MAC: u16 = 0;
/// Offset of the network header in an IP program.
pub const NETWORK: u16 = 256;
/// Offset of the transport header in an IP program.
pub const TRANSPORT: u16 = 512;

/// What the offsets of a program count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The start of the packet, as in Classifier.
    Flat,
    /// The MAC header, from [`MAC`] on, the network header, from [`NETWORK`] on, or the transport
    /// header, from [`TRANSPORT`] on, as in IPFilter.
    Ip,
}

impl Layout {
    /// How many sections with offsets of their own there can be.
    pub(super) const SECTIONS: usize = 3;

    /// The section that an offset lies in.
    pub(super) fn section(self, offset: u16) -> usize {
        match self {
            Layout::Flat => 0,
            Layout::Ip if offset < NETWORK => 0,
            Layout::Ip if offset < TRANSPORT => 1,
            Layout::Ip => 2,
        }
    }

    /// The key by which conjunctions are sorted. Click asks for the protocol before the fragment
    /// offset, although it stands behind it.
    pub(super) fn sort_key(self, offset: u16) -> u16 {
        match self {
            Layout::Ip if offset == NETWORK + 8 => NETWORK + 3,
            _ => offset,
        }
    }
}

/// A length that packets are known to have, for each section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownLength([u32; Layout::SECTIONS]);

impl KnownLength {
    /// Nothing is known.
    pub(super) const NONE: Self = Self([0; Layout::SECTIONS]);
    /// No packet at all: whatever is said of its length is true.
    pub(super) const ANY: Self = Self([i32::MAX as u32; Layout::SECTIONS]);

    /// The length known of a section.
    pub(super) fn of(self, section: usize) -> u32 {
        self.0.get(section).copied().unwrap_or(0)
    }

    /// What is known once a section has turned out to have this length.
    pub(super) fn at_least(mut self, section: usize, length: u32) -> Self {
        if let Some(known) = self.0.get_mut(section) {
            *known = (*known).max(length);
        }
        self
    }

    /// What is known of packets of which either this or the other is known.
    pub(super) fn both(self, other: Self) -> Self {
        Self(std::array::from_fn(|section| self.of(section).min(other.of(section))))
    }
}
