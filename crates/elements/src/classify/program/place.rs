//! The position of a test in a packet, and loading the words there.

use super::insn::Test;
use super::layout::{Layout, NETWORK, TRANSPORT};

/// The position of a test in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The section, by its number.
    pub(super) section: u8,
    /// The first byte of the word in its section.
    pub(super) start: u16,
    /// The number of bytes from `start` on that must be present.
    pub(super) needs: u8,
    /// The number of bits by which words are shifted so that they begin at `start`.
    shift: u32,
    /// The test of the word at `start`.
    pub(super) test: Test,
}

impl Place {
    /// The place of a test in packets of a layout; see [`Program::new`](super::Program::new) for
    /// `align_offset`.
    pub(super) fn new(test: &Test, layout: Layout, align_offset: u16) -> Self {
        let section = layout.section(test.offset);
        let before = match (layout, section) {
            (Layout::Flat, _) => align_offset,
            // The MAC header begins two bytes into its section.
            (Layout::Ip, 0) => 2,
            (Layout::Ip, 1) => NETWORK,
            (Layout::Ip, _) => TRANSPORT,
        };
        // A word that begins before its section is replaced by the one at its start; the bytes before the section are
        // not compared.
        let shift = 8 * u32::from(before.saturating_sub(test.offset));
        let mut place = Place {
            section: section as u8,
            start: test.offset.saturating_sub(before),
            needs: 0,
            shift,
            test: *test,
        };
        place.test = Test::new(0, place.shifted(test.value), place.shifted(test.mask));
        place.needs = place.test.required_length() as u8;
        place
    }

    /// A word at the test's offset, converted to the word at `start`.
    pub(super) fn shifted(&self, word: u32) -> u32 {
        word.checked_shl(self.shift).unwrap_or(0)
    }
}

/// A word in network order as the machine would load it.
pub(super) fn as_loaded(word: u32) -> u32 {
    u32::from_ne_bytes(word.to_be_bytes())
}

/// The word at `start`, as the machine loads it.
#[inline(always)]
pub(super) fn load(bytes: &[u8], start: u16) -> Option<u32> {
    let start = usize::from(start);
    let word = bytes.get(start..start + 4)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

/// The word at `start`, in network order, if `needs` bytes of it are present; missing bytes are 0.
#[inline(always)]
pub(super) fn load_part(bytes: &[u8], start: u16, needs: u8) -> Option<u32> {
    let rest = bytes.get(usize::from(start)..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return Some(u32::from_be_bytes(*word));
    }
    if rest.len() < usize::from(needs) {
        return None;
    }
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(rest) {
        *to = *from;
    }
    Some(u32::from_be_bytes(word))
}
