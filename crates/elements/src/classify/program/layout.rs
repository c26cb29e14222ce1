//! The base of a program's offsets.

/// Offset of the MAC header's section in an IP program; the header starts two bytes into it, so that the network header
/// is aligned.
pub const MAC: u16 = 0;
/// Offset of the network header in an IP program.
pub const NETWORK: u16 = 256;
/// Offset of the transport header in an IP program.
pub const TRANSPORT: u16 = 512;

/// The base of a program's offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The start of the packet, as in Classifier.
    Flat,
    /// The MAC header, from [`MAC`] on, the network header, from [`NETWORK`] on, or the transport
    /// header, from [`TRANSPORT`] on, as in IPFilter.
    Ip,
}

impl Layout {
    /// The number of sections with their own offsets.
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

    /// The key by which conjunctions are sorted. Click tests the protocol before the fragment offset, although it comes
    /// after it.
    pub(super) fn sort_key(self, offset: u16) -> u16 {
        match self {
            Layout::Ip if offset == NETWORK + 8 => NETWORK + 3,
            _ => offset,
        }
    }
}

/// A minimum length that packets are known to have, for each section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownLength([u32; Layout::SECTIONS]);

impl KnownLength {
    /// Nothing is known.
    pub(super) const NONE: Self = Self([0; Layout::SECTIONS]);
    /// No packet at all: any statement about its length is true.
    pub(super) const ANY: Self = Self([i32::MAX as u32; Layout::SECTIONS]);

    /// The length known for a section.
    pub(super) fn of(self, section: usize) -> u32 {
        self.0.get(section).copied().unwrap_or(0)
    }

    /// What is known once a section has been found to have this length.
    pub(super) fn at_least(mut self, section: usize, length: u32) -> Self {
        if let Some(known) = self.0.get_mut(section) {
            *known = (*known).max(length);
        }
        self
    }

    /// What is known about packets if either this or the other holds.
    pub(super) fn both(self, other: Self) -> Self {
        Self(std::array::from_fn(|section| self.of(section).min(other.of(section))))
    }
}
