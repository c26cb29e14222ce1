//! One field of the index: which cubes a value of it lies in.
//!
//! The values at which a cube begins or ends divide the field into *intervals*. For each interval
//! there is a bit for every cube, grouped to *lines* of [`LINE`] bits. Most lines of an interval are
//! those of the cubes to which the field does not matter: the *background*, kept once. A row
//! says which lines are not empty and which are not the background; the latter stand in a list.
//! Equal rows are kept once. So memory grows with what rules say of the field, not with the
//! product of intervals and cubes. Where all cubes are in one line, a row is that line.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Sections;
use super::fields::Field;
use super::intervals::Intervals;
use super::sets::ValueSet;

/// Bits of a line.
pub(super) const LINE: usize = 64;

/// Lines of a page, which is as much as one row tells of.
pub(super) const PAGE: usize = 64;

/// Most bytes that a field's intervals may take; a field that takes more is left to the rules.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Where the lines of an interval and one page stand that are not the background.
#[derive(Clone, Copy, Debug, Default)]
struct Special {
    /// A bit for each line.
    lines: u64,
    /// Where in the list the first of these stands; the others follow.
    first: u32,
}

/// The cubes' sets of one field.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    /// Where the field is: the section, and in it the first byte.
    section: usize,
    start: usize,
    intervals: Intervals,
    /// The row of packets without the field.
    missing: u32,
    /// For each row and page the lines in which there is a cube; of one line alone the line.
    occupied: Box<[u64]>,
    /// The same with the lines that are not the background.
    special: Box<[Special]>,
    /// The lines that are not the background, those of a row one after another.
    specials: Box<[u64]>,
    background: Box<[u64]>,
}

impl Dimension {
    /// The dimension of a field; `sets` has the set of each cube, at its place, and the places that
    /// have no cube. Nothing if it takes more than [`MAX_BYTES`].
    pub(super) fn new(field: Field, sets: &[Place<'_>]) -> Option<Self> {
        let columns = sets.len().div_ceil(LINE);
        let mut sweep = Sweep::new(columns, sets);
        let mut starts = Vec::new();
        let mut rows = Vec::new();
        let mut events = events(field, sets).into_iter().peekable();
        let mut at = Some(0);
        while let Some(start) = at {
            while let Some(event) = events.next_if(|event| event.value == start) {
                sweep.apply(&event);
            }
            let row = sweep.finish_interval();
            if rows.last() != Some(&row) {
                starts.push(start);
                rows.push(row);
            }
            at = events.peek().map(|event| event.value);
            if sweep.bytes() > MAX_BYTES {
                return None;
            }
        }
        sweep.set_missing(sets);
        let missing = sweep.finish_interval();
        if columns == 1 {
            sweep.reduce_to_line();
        }
        let (section, start) = field.place();
        Some(Self {
            section,
            start,
            intervals: Intervals::new(field.bits(), &starts, &rows),
            missing,
            occupied: sweep.occupied_rows.into(),
            special: sweep.special_rows.into(),
            specials: sweep.specials.into(),
            background: sweep.background.into(),
        })
    }

    /// Writes the rows of packets. A bit is set in the result for each that lacks the field.
    #[inline(always)]
    pub(super) fn find<const N: usize>(
        &self,
        packets: &[Sections<'_>; N],
        rows: &mut [u32; N],
    ) -> u32 {
        match &self.intervals {
            Intervals::Word(tree) => {
                self.find_by(packets, rows, |bytes| tree.find(u32::from_be_bytes(bytes)))
            }
            Intervals::Half { pages, rows: of_pages } => {
                self.find_by(packets, rows, |[upper, lower]: [u8; 2]| {
                    let page = of_pages.get(usize::from(pages[usize::from(upper)]));
                    page.map_or(0, |page| page[usize::from(lower)].into())
                })
            }
            Intervals::Byte(of_values) => {
                self.find_by(packets, rows, |[value]: [u8; 1]| of_values[usize::from(value)].into())
            }
        }
    }

    #[inline(always)]
    fn find_by<const N: usize, const BYTES: usize>(
        &self,
        packets: &[Sections<'_>; N],
        rows: &mut [u32; N],
        row: impl Fn([u8; BYTES]) -> u32,
    ) -> u32 {
        let (section, start) = (self.section, self.start);
        let mut short = 0;
        for lane in 0..N {
            let value = packets[lane][section % 3].get(start..start + BYTES);
            rows[lane] = match value.and_then(|value| value.first_chunk()) {
                Some(value) => row(*value),
                None => {
                    short |= 1 << lane;
                    self.missing
                }
            };
        }
        short
    }

    /// The lines of a page in which there is a cube; of one line alone the line. `at` counts rows times pages.
    #[inline(always)]
    pub(super) fn occupied(&self, at: usize) -> u64 {
        self.occupied.get(at).copied().unwrap_or(0)
    }

    /// A line by a row and page, which are at `at`; `column` is the line within all pages.
    #[inline(always)]
    pub(super) fn line(&self, at: usize, column: usize) -> u64 {
        let Some(special) = self.special.get(at) else { return 0 };
        let bit = 1 << (column % PAGE);
        let line = if special.lines & bit != 0 {
            let before = (special.lines & (bit - 1)).count_ones() as usize;
            self.specials.get(special.first as usize + before)
        } else {
            self.background.get(column)
        };
        line.copied().unwrap_or(0)
    }

    /// Bytes that the tables take.
    pub(super) fn bytes(&self) -> usize {
        self.intervals.bytes()
            + size_of_val(&*self.occupied)
            + size_of_val(&*self.special)
            + size_of_val(&*self.specials)
            + size_of_val(&*self.background)
    }
}

/// What stands in the place of a cube: nothing, or its set of the field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Empty,
    Any,
    Set(&'a ValueSet),
}

impl<'a> Place<'a> {
    /// What stands in the place of a cube, if there is one, with this set.
    pub(super) fn of(cube: Option<Option<&'a ValueSet>>) -> Self {
        match cube {
            None => Self::Empty,
            Some(None) => Self::Any,
            Some(Some(set)) => Self::Set(set),
        }
    }
}

/// A cube begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    value: u32,
    cube: u32,
    begins: bool,
}

/// Where cubes begin and end, in order.
fn events(field: Field, sets: &[Place<'_>]) -> Vec<Event> {
    let mut events = Vec::new();
    for (cube, set) in (0..).zip(sets) {
        let Place::Set(set) = set else { continue };
        for &(first, last) in &set.ranges {
            events.push(Event { value: first, cube, begins: true });
            if last < field.greatest() {
                events.push(Event { value: last + 1, cube, begins: false });
            }
        }
    }
    events.sort_unstable();
    events
}

/// The lines while the sweep goes from the least value to the greatest.
struct Sweep {
    now: Vec<u64>,
    background: Vec<u64>,
    /// Lines that have changed since the last row.
    changed: Vec<usize>,
    occupied: Vec<u64>,
    special: Vec<u64>,
    /// Rows by what is special of them.
    known: HashMap<(Box<[u64]>, Box<[u64]>), u32, FixedState>,
    occupied_rows: Vec<u64>,
    special_rows: Vec<Special>,
    specials: Vec<u64>,
}

impl Sweep {
    fn new(columns: usize, sets: &[Place<'_>]) -> Self {
        let mut background = vec![0; columns];
        for (cube, set) in sets.iter().enumerate() {
            if matches!(set, Place::Any) {
                set_bit(&mut background, cube, true);
            }
        }
        let pages = columns.div_ceil(PAGE);
        Self {
            now: background.clone(),
            background,
            changed: (0..columns).collect(),
            occupied: vec![0; pages],
            special: vec![0; pages],
            known: HashMap::default(),
            occupied_rows: Vec::new(),
            special_rows: Vec::new(),
            specials: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event) {
        let cube = event.cube as usize;
        set_bit(&mut self.now, cube, event.begins);
        if self.changed.last() != Some(&(cube / LINE)) {
            self.changed.push(cube / LINE);
        }
    }

    /// Only what packets without the field can satisfy.
    fn set_missing(&mut self, sets: &[Place<'_>]) {
        for (cube, set) in sets.iter().enumerate() {
            let missing = match set {
                Place::Empty => false,
                Place::Any => true,
                Place::Set(set) => set.missing,
            };
            set_bit(&mut self.now, cube, missing);
        }
        self.changed = (0..self.now.len()).collect();
    }

    /// The row of an interval.
    fn finish_interval(&mut self) -> u32 {
        for column in self.changed.drain(..) {
            let line = self.now[column];
            let (page, bit) = (column / PAGE, 1 << (column % PAGE));
            set_if(&mut self.occupied[page], bit, line != 0);
            set_if(&mut self.special[page], bit, line != self.background[column]);
        }
        let mut lines = Vec::new();
        for (page, &special) in self.special.iter().enumerate() {
            let mut left = special;
            while left != 0 {
                lines.push(self.now[page * PAGE + left.trailing_zeros() as usize]);
                left &= left - 1;
            }
        }
        let new = self.known.len() as u32;
        let key = (self.special.clone().into(), lines.clone().into());
        let row = *self.known.entry(key).or_insert(new);
        if row == new {
            let mut first = self.specials.len() as u32;
            for &lines in &self.special {
                self.special_rows.push(Special { lines, first });
                first += lines.count_ones();
            }
            self.occupied_rows.extend(&self.occupied);
            self.specials.extend(lines);
        }
        row
    }

    /// Puts the line itself in the place of what is to be known of it.
    fn reduce_to_line(&mut self) {
        let rows = self.occupied_rows.iter_mut().zip(&self.special_rows);
        for (line, special) in rows {
            let special_line = self.specials.get(special.first as usize);
            let line_of = if special.lines != 0 { special_line } else { self.background.first() };
            *line = line_of.copied().unwrap_or(0);
        }
        self.special_rows.clear();
        self.specials.clear();
        self.background.clear();
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.occupied_rows)
            + size_of_val(&*self.special_rows)
            + size_of_val(&*self.specials)
    }
}

fn set_bit(lines: &mut [u64], cube: usize, to: bool) {
    if let Some(line) = lines.get_mut(cube / LINE) {
        set_if(line, 1 << (cube % LINE), to);
    }
}

fn set_if(word: &mut u64, bit: u64, to: bool) {
    *word = if to { *word | bit } else { *word & !bit };
}
