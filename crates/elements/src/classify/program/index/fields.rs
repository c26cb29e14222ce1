//! The fields of packets that rules test.

use std::collections::HashMap;

use super::super::expr::Expr;
use super::super::insn::{Jump, Test};
use super::super::layout::Layout;
use super::super::place::Place;
use super::sets::ValueSet;

/// The maximum number of fields in the index. Conditions on other fields are checked when the rest of a rule holds.
pub(super) const MAX_FIELDS: usize = 16;

/// Some bits of a word of the packet, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Field {
    section: u8,
    start: u16,
    /// The number of bits of the word after the field.
    shift: u8,
    bits: u8,
}

/// A test's condition on one field: its bits under `mask` equal `value`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) field: Field,
    pub(super) value: u32,
    pub(super) mask: u32,
}

impl Field {
    /// The greatest value.
    #[inline(always)]
    pub(super) fn greatest(self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits))
    }

    /// The number of bits of a value.
    pub(super) fn bits(self) -> u32 {
        self.bits.into()
    }

    /// How rare values in a set are: the number of bits of a random number that must all be 0.
    pub(super) fn rarity(self, set: &ValueSet) -> u32 {
        let of_random = self.bits().saturating_sub(set.size().max(1).ilog2());
        let has = |value| set.ranges.iter().any(|&(first, last)| (first..=last).contains(&value));
        match (self.section, self.start, self.shift) {
            // Most packets are not fragments (RFC 791, 3.1), with "don't fragment" set or not,
            (1, 4, 0) if has(0) || has(0x4000) => 0,
            // and are TCP or UDP.
            (1, 8, 16) if has(6) => of_random.min(1),
            (1, 8, 16) if has(17) => of_random.min(2),
            _ => of_random,
        }
    }

    /// The number of bytes of the word that must be present for the field to be present.
    #[inline(always)]
    pub(super) fn needs(self) -> u8 {
        4 - self.shift / 8
    }

    /// The number of the field's section, and its first byte there.
    pub(super) fn place(self) -> (u8, u16) {
        let before = 4 - u16::from(self.shift + self.bits) / 8;
        (self.section, self.start + before)
    }
}

/// The parts of a test, in the order of their bytes.
pub(super) fn parts(place: &Place) -> impl Iterator<Item = Part> {
    let (section, start, test) = (place.section, place.start, place.test);
    bounds(section, start).iter().filter_map(move |&(shift, bits)| {
        let field = Field { section, start, shift, bits };
        let of_field = |word: u32| word >> shift & field.greatest();
        let part = Part { field, value: of_field(test.value), mask: of_field(test.mask) };
        (part.mask != 0).then_some(part)
    })
}

/// The fields of a word, as the number of bits after each and its own number of bits. The fields that tests of this
/// language use most often are among them.
fn bounds(section: u8, start: u16) -> &'static [(u8, u8)] {
    const ADDRESS: &[(u8, u8)] = &[(0, 32)];
    const HALVES: &[(u8, u8)] = &[(16, 16), (0, 16)];
    const BYTES: &[(u8, u8)] = &[(24, 8), (16, 8), (0, 16)];
    match (section, start) {
        // Both parts of an Ethernet address that form a word.
        (0, 2 | 6) => ADDRESS,
        // Version, type of service, length; time to live, protocol, checksum (RFC 791, 3.1).
        (1, 0 | 8) => BYTES,
        (1, 12 | 16) => ADDRESS,
        // Sequence numbers, then data offset, flags and window (RFC 9293, 3.1).
        (2, 4 | 8) => ADDRESS,
        (2, 12) => BYTES,
        _ => HALVES,
    }
}

/// The fields that most rules test.
pub(super) fn choose(rules: &[(Expr<Test>, Jump)]) -> Vec<Field> {
    let mut uses: HashMap<Field, usize> = HashMap::new();
    for (expr, _) in rules {
        count(expr, &mut uses);
    }
    let mut fields: Vec<(Field, usize)> = uses.into_iter().collect();
    fields.sort_unstable_by_key(|&(field, uses)| (std::cmp::Reverse(uses), field));
    fields.truncate(MAX_FIELDS);
    fields.into_iter().map(|(field, _)| field).collect()
}

fn count(expr: &Expr<Test>, uses: &mut HashMap<Field, usize>) {
    match expr {
        Expr::Is(test) => {
            for part in parts(&Place::new(test, Layout::Ip, 0)) {
                *uses.entry(part.field).or_default() += 1;
            }
        }
        Expr::All(list) | Expr::Any(list) | Expr::Choose(list) => {
            list.iter().for_each(|expr| count(expr, uses));
        }
        Expr::Not { of, .. } => count(of, uses),
    }
}
