//! The table: rules with their changes and actions as one array of words, for a GPU.
//!
//! All numbers are in words and count from the start of the table, which is aligned to 16 bytes; those in the images count
//! from the start of each.
//!
//! | word | |
//! |---|---|
//! | 0 | [`TABLE_MAGIC`] |
//! | 1 | [`VERSION`] of the layout of images |
//! | 2 | words of the table |
//! | 3 | where the [image](super::image) of the original rules begins, a multiple of 8 |
//! | 4 | where the image of rules that have been put in begins, a multiple of 8; 0 when there is none |
//! | 5 | where their numbers begin |
//! | 6 | for each of them, the original rule in front of which it stands: where these begin |
//! | 7 | where a bit for each original rule that has been taken out begins, bit `n % 32` of word `n / 32`; 0 when none has |
//! | 8 | where actions begin, one for each rule's number |
//! | 9 | how many there are |
//! | 10 | the action of packets that satisfy no rule |
//! | 11-15 | 0 |
//!
//! An action is the number of an output, or [`DROP`]. Let `r` be the first rule of the original ones that holds and has
//! not been taken out, or [`NONE`](super::NONE), and `a` the first one of the other image; the packet's rule is
//! `numbers[a]` if there is an `a` and `before[a] <= r`, else `r`.

use super::image::VERSION;

/// The first word of a table: "MRTB".
pub const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"MRTB");

/// The action of rules that drop.
pub const DROP: u32 = u32::MAX - 1;

/// The number of words before the first part.
const HEADER: usize = 16;

/// The changes since the trees were built.
#[derive(Clone, Copy)]
pub(super) struct Changes<'a> {
    pub(super) removed: &'a [u32],
    /// The image of the inserted rules; empty if there are none.
    pub(super) added: &'a [u32],
    pub(super) numbers: &'a [u32],
    pub(super) before: &'a [u32],
}

/// Makes a table.
pub(super) fn table(image: &[u32], changes: Changes<'_>, actions: &[u32], miss: u32) -> Vec<u32> {
    let parts = [image, changes.added, changes.numbers, changes.before, changes.removed, actions];
    let size = HEADER + parts.iter().map(|part| part.len().next_multiple_of(8)).sum::<usize>();
    let mut words = Vec::with_capacity(size);
    words.resize(HEADER, 0);
    let places = parts.map(|part| {
        words.resize(words.len().next_multiple_of(8), 0);
        let at = words.len() as u32;
        words.extend_from_slice(part);
        if part.is_empty() { 0 } else { at }
    });
    let [image, added, numbers, before, removed, of_actions] = places;
    let count = actions.len() as u32;
    let header = [
        TABLE_MAGIC,
        VERSION,
        words.len() as u32,
        image,
        added,
        numbers,
        before,
        removed,
        of_actions,
        count,
        miss,
    ];
    words[..header.len()].copy_from_slice(&header);
    words
}
