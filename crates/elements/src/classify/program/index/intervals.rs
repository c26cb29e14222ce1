//! From the value of a field to its interval.
//!
//! The conditions of rules divide the values of a field into intervals. Finding the interval of a value is most of a
//! packet's cost, so it has as few steps as possible, none of which depends on the packet: for one-byte fields a table
//! of all values, for two-byte fields a table of pages, with equal pages stored once, and for four-byte fields a
//! bisection with the same number of steps for all values.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// The maximum number of a value's upper bits that select the start of a search.
const MAX_SLOT_BITS: u32 = 12;

/// A number for each value of a byte.
type Page = [u16; 256];

/// The numbers of the intervals' rows.
#[derive(Clone, Debug)]
pub(super) enum Intervals {
    /// The row of each value.
    Byte(Box<Page>),
    /// A page for each upper byte, and in it the row for each lower byte.
    Half {
        pages: Box<Page>,
        rows: Box<[Page]>,
    },
    Word(Box<Search>),
}

/// A search through the last values of intervals. A table, indexed by the value's upper bits, gives the start. All
/// values take the same number of steps.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The first value of the first slot, and the shift for the rest of a value.
    base: u32,
    shift: u32,
    /// For each slot, the number of intervals that end before it begins.
    slots: Box<[u32]>,
    /// The number of bisection steps within a slot.
    steps: u32,
    ends: Box<[u32]>,
    /// The row of each interval.
    rows: Box<[u32]>,
}

impl Intervals {
    /// `starts` are the first values of the intervals of a field with this many bits, in order, from 0; `rows` are
    /// their rows.
    pub(super) fn new(bits: u32, starts: &[u32], rows: &[u32]) -> Self {
        match bits {
            8 => {
                let mut table = Box::new([0; 256]);
                fill(&mut table, 0, starts, rows);
                Self::Byte(table)
            }
            16 => {
                let mut pages = Box::new([0; 256]);
                let mut rows_of_pages = Vec::new();
                let mut known: HashMap<Page, u16, FixedState> = HashMap::default();
                let (mut at, mut whole) = (0, HashMap::<u32, u16, FixedState>::default());
                for (first, number) in (0..).step_by(256).zip(pages.iter_mut()) {
                    // The intervals that overlap the page: the one that begins at or before its start, and others.
                    at += starts[at..].partition_point(|&start| start <= first).max(1) - 1;
                    let others = starts[at + 1..].partition_point(|&start| start < first + 256);
                    let mut add = || {
                        let mut page = [0; 256];
                        fill(&mut page, first, &starts[at..=at + others], &rows[at..]);
                        *known.entry(page).or_insert_with(|| {
                            rows_of_pages.push(page);
                            rows_of_pages.len() as u16 - 1
                        })
                    };
                    *number = if others == 0 {
                        *whole.entry(rows[at]).or_insert_with(add)
                    } else {
                        add()
                    };
                }
                Self::Half { pages, rows: rows_of_pages.into() }
            }
            _ => Self::Word(Box::new(Search::new(starts, rows))),
        }
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Byte(rows) => size_of_val(&**rows),
            Self::Half { pages, rows } => size_of_val(&**pages) + size_of_val(&**rows),
            Self::Word(search) => {
                size_of_val(&*search.slots)
                    + size_of_val(&*search.ends)
                    + size_of_val(&*search.rows)
            }
        }
    }
}

/// Writes the row of each value of a page, whose first value is `first`. There are no more rows than values.
fn fill(page: &mut Page, first: u32, starts: &[u32], rows: &[u32]) {
    for (&start, &row) in starts.iter().zip(rows) {
        if let Some(values) = page.get_mut(start.saturating_sub(first) as usize..) {
            values.fill(row as u16);
        }
    }
}

impl Search {
    fn new(starts: &[u32], rows: &[u32]) -> Self {
        let mut ends: Vec<u32> = starts.iter().skip(1).map(|start| start - 1).collect();
        let base = ends.first().map_or(0, |end| end & !0xff);
        let span = ends.last().map_or(0, |end| end - base);
        let width = u32::BITS - span.leading_zeros();
        // Few bits and many steps, or the reverse: a slot costs as much as a step.
        let most_bits = (ends.len() + 1).ilog2() + 2;
        let with_bits = |bits: u32| {
            let shift = width.saturating_sub(bits).min(31);
            let one = |end: u32| if bits > 0 { (end - base) >> shift } else { 0 };
            let slots = ends.chunk_by(|&a, &b| one(a) == one(b));
            let most = slots.map(<[u32]>::len).max().unwrap_or(0);
            // The number of steps to find one of the intervals that end in one slot.
            (bits, shift, most.checked_ilog2().map_or(0, |steps| steps + 1))
        };
        let ways = (0..=most_bits.min(MAX_SLOT_BITS)).map(with_bits);
        let best = ways.min_by_key(|&(bits, _, steps)| (steps + u32::from(bits > 0), bits));
        let (bits, shift, steps) = best.unwrap_or((0, 31, u32::BITS));
        let last = if bits > 0 { span >> shift } else { 0 };
        let first =
            |slot: u32| ends.partition_point(|&end| slot > 0 && end < base + (slot << shift));
        let slots = (0..=last).map(|slot| first(slot) as u32).collect();
        // Padding: no value is greater.
        ends.resize(ends.len() + (1 << steps), u32::MAX);
        Self { base, shift, slots, steps, ends: ends.into(), rows: rows.into() }
    }

    /// Writes the row of each value.
    #[inline(always)]
    pub(super) fn find<const N: usize>(&self, values: &[u32; N]) -> [u32; N] {
        let last = self.slots.len().saturating_sub(1);
        let mut at = values.map(|value| {
            let slot = (value.saturating_sub(self.base) >> self.shift) as usize;
            self.slots.get(slot.min(last)).copied().unwrap_or(0) as usize
        });
        for step in (0..self.steps).rev() {
            for lane in 0..N {
                // No branch, because a packet's value is unpredictable.
                let end = self.ends.get(at[lane] + (1 << step) - 1).copied().unwrap_or(u32::MAX);
                at[lane] += usize::from(end < values[lane]) << step;
            }
        }
        at.map(|at| self.rows.get(at).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of a value.
    fn find(intervals: &Intervals, value: u32) -> u32 {
        match intervals {
            Intervals::Byte(rows) => rows[value as usize].into(),
            Intervals::Half { pages, rows } => {
                rows[usize::from(pages[value as usize >> 8])][value as usize & 0xff].into()
            }
            Intervals::Word(search) => search.find(&[value])[0],
        }
    }

    #[test]
    fn every_value_lies_in_its_interval() {
        let mut random = fastrand::Rng::with_seed(1);
        for (nth, bits) in [8, 16, 32].into_iter().cycle().take(600).enumerate() {
            let greatest = u32::MAX >> (32 - bits);
            // Spread evenly, or crowded in one part of the field.
            let width = random.u32(3..=bits);
            let base = random.u32(..=greatest) & !(u32::MAX >> (32 - width));
            let count = [0, 1, 2, 5, 20, 300][nth / 3 % 6];
            let draw = |random: &mut fastrand::Rng| base | random.u32(..) >> (32 - width);
            let mut starts: Vec<u32> = (0..count).map(|_| draw(&mut random)).collect();
            starts.extend([0, greatest].into_iter().take(1 + nth % 2));
            starts.sort_unstable();
            starts.dedup();
            let rows: Vec<u32> = starts.iter().map(|_| random.u32(..1000)).collect();
            let intervals = Intervals::new(bits, &starts, &rows);
            let mut values: Vec<u32> =
                starts.iter().flat_map(|&it| [it, it.saturating_sub(1)]).collect();
            values.extend((0..50).map(|_| draw(&mut random)));
            values.extend((0..50).map(|_| random.u32(..=greatest)));
            for value in values {
                let interval = starts.partition_point(|&start| start <= value) - 1;
                assert_eq!(
                    find(&intervals, value),
                    rows[interval],
                    "{bits} bits, {starts:?}: {value}"
                );
            }
        }
    }
}
