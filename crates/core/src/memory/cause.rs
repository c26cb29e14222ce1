//! Why packet data is copied.

/// Why packet data was copied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum CopyCause {
    /// A shared packet was about to be written.
    Unshare,
    /// Bytes were prepended and there was no headroom for them.
    Headroom,
    /// Bytes were appended and there was no tailroom for them.
    Tailroom,
    /// A device provides bytes that the program cannot keep.
    Receive,
    /// A device accepts only bytes in its own memory.
    Transmit,
    /// A packet was duplicated: a full copy was requested, or its buffer was shared too often.
    Clone,
    /// An element builds one packet from another (fragments, replies).
    Element,
}

impl CopyCause {
    /// Every cause, in the order of [`Copies::iter`].
    pub const ALL: [CopyCause; 7] = [
        CopyCause::Unshare,
        CopyCause::Headroom,
        CopyCause::Tailroom,
        CopyCause::Receive,
        CopyCause::Transmit,
        CopyCause::Clone,
        CopyCause::Element,
    ];

    /// The cause in one lower-case word, for reports.
    pub fn name(self) -> &'static str {
        match self {
            CopyCause::Unshare => "unshare",
            CopyCause::Headroom => "headroom",
            CopyCause::Tailroom => "tailroom",
            CopyCause::Receive => "receive",
            CopyCause::Transmit => "transmit",
            CopyCause::Clone => "clone",
            CopyCause::Element => "element",
        }
    }
}

/// Packets copied since the process began, for all threads together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copies([u64; CopyCause::ALL.len()]);

impl Copies {
    pub(super) fn add(&mut self, cause: CopyCause, packets: u64) {
        if let Some(count) = self.0.get_mut(cause as usize) {
            *count = count.wrapping_add(packets);
        }
    }

    /// Packets copied for this cause.
    pub fn get(&self, cause: CopyCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// Packets copied for any cause.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (CopyCause, u64)> + '_ {
        CopyCause::ALL.into_iter().map(|cause| (cause, self.get(cause)))
    }

    /// The copies made between `earlier` and this.
    pub fn since(&self, earlier: &Copies) -> Copies {
        let mut difference = Copies::default();
        for (cause, count) in self.iter() {
            difference.add(cause, count.wrapping_sub(earlier.get(cause)));
        }
        difference
    }
}
