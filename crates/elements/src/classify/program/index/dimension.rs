//! One field of the index: which cubes a value of it lies in.
//!
//! The values at which a cube begins or ends divide the field into *intervals*. For each interval
//! there is a bit for every cube, grouped to *lines* of [`LINE`] bits. Most lines of an interval are
//! those of the cubes to which the field does not matter: the *background*, kept once. A [`Row`]
//! says which lines are not empty and which are not the background; the latter stand in a list.
//! Equal lines are kept once. So memory grows with what rules say of the field, not with the
//! product of intervals and cubes.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::fields::Field;
use super::sets::ValueSet;

/// Bits of a line.
pub(super) const LINE: usize = 256;

/// Lines of a page, which is as much as one row tells of.
pub(super) const PAGE: usize = 64;

/// Most bytes that a field's intervals may take; a field that takes more is left to the rules.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// A bit for each of [`LINE`] cubes.
pub(super) type Line = [u64; LINE / 64];

/// What is to be known of one interval and one page of lines. A bit of the numbers is a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Those in which there is a cube.
    pub(super) occupied: u64,
    /// Those that are not the background.
    pub(super) special: u64,
    /// Where in the list the first of these stands; the others follow.
    pub(super) first: u32,
}

/// The cubes' sets of one field.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    pub(super) field: Field,
    /// From the upper bits of a value to the intervals that values with these lie in: the first one,
    /// and how many.
    slots: Box<[(u32, u32)]>,
    shift: u32,
    /// The first value of each interval.
    starts: Box<[u32]>,
    pages: usize,
    /// The rows of each interval, and of packets without the field.
    rows: Box<[Row]>,
    /// The numbers of special lines.
    specials: Box<[u32]>,
    /// The background of each line, then the others.
    lines: Box<[Line]>,
}

impl Dimension {
    /// The dimension of a field; `sets` has the set of each cube, at its place, and the places that
    /// have no cube. Nothing if it takes more than [`MAX_BYTES`].
    pub(super) fn new(field: Field, sets: &[Place<'_>]) -> Option<Self> {
        let columns = sets.len().div_ceil(LINE);
        let mut sweep = Sweep::new(columns, sets);
        let mut starts = Vec::new();
        let mut events = events(field, sets).into_iter().peekable();
        let mut at = Some(0);
        while let Some(start) = at {
            while let Some(event) = events.next_if(|event| event.value == start) {
                sweep.apply(&event);
            }
            starts.push(start);
            sweep.finish_interval();
            at = events.peek().map(|event| event.value);
            if sweep.bytes() > MAX_BYTES {
                return None;
            }
        }
        sweep.set_missing(sets);
        sweep.finish_interval();
        let (slots, shift) = slots(field, &starts);
        Some(Self {
            field,
            slots,
            shift,
            starts: starts.into(),
            pages: columns.div_ceil(PAGE),
            rows: sweep.rows.into(),
            specials: sweep.specials.into(),
            lines: sweep.lines.into(),
        })
    }

    /// The first of the rows of a value.
    #[inline(always)]
    pub(super) fn find(&self, value: u32) -> usize {
        let slot = (value >> self.shift) as usize;
        let Some(&(first, count)) = self.slots.get(slot) else { return 0 };
        let (mut at, mut count) = (first as usize, count as usize);
        // The last of these that begins at the value or before it.
        while count > 1 {
            let half = count / 2;
            let begins = self.starts.get(at + half).is_some_and(|&start| start <= value);
            at = if begins { at + half } else { at };
            count -= half;
        }
        at * self.pages
    }

    /// The first of the rows of packets without the field.
    #[inline(always)]
    pub(super) fn find_missing(&self) -> usize {
        self.starts.len() * self.pages
    }

    #[inline(always)]
    pub(super) fn row(&self, at: usize) -> &Row {
        const NONE: &Row = &Row { occupied: 0, special: 0, first: 0 };
        match self.rows.get(at) {
            Some(row) => row,
            None => NONE,
        }
    }

    /// A line by a row, which is at `row`; `column` is the line within all pages.
    #[inline(always)]
    pub(super) fn line(&self, row: usize, column: usize) -> &Line {
        const NONE: &Line = &[0; LINE / 64];
        let row = self.row(row);
        let bit = 1 << (column % PAGE);
        let mut number = column;
        if row.special & bit != 0 {
            let before = (row.special & (bit - 1)).count_ones() as usize;
            match self.specials.get(row.first as usize + before) {
                Some(&special) => number = special as usize,
                None => return NONE,
            }
        }
        match self.lines.get(number) {
            Some(line) => line,
            None => NONE,
        }
    }

    /// Bytes that the tables take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
            + size_of_val(&*self.starts)
            + size_of_val(&*self.rows)
            + size_of_val(&*self.specials)
            + size_of_val(&*self.lines)
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

/// A table from the upper bits of values to intervals, with about two entries an interval, and by
/// how much a value is to be shifted.
fn slots(field: Field, starts: &[u32]) -> (Box<[(u32, u32)]>, u32) {
    let bits = (starts.len().next_power_of_two().ilog2() + 1).min(16).min(field.bits());
    let shift = field.bits() - bits;
    let mut slots = Vec::with_capacity(1 << bits);
    let mut first = 0;
    for slot in 0..1_u32 << bits {
        let begins_by = |interval: usize, value: u32| {
            starts.get(interval + 1).is_some_and(|&start| start <= value)
        };
        while begins_by(first, slot << shift) {
            first += 1;
        }
        let mut last = first;
        while begins_by(last, slot << shift | ((1 << shift) - 1)) {
            last += 1;
        }
        slots.push((first as u32, (last - first) as u32 + 1));
        first = last;
    }
    (slots.into(), shift)
}

/// The lines while the sweep goes from the least value to the greatest.
struct Sweep {
    now: Vec<Line>,
    numbers: Vec<u32>,
    /// Lines that have changed since their number was looked up.
    changed: Vec<usize>,
    known: HashMap<Line, u32, FixedState>,
    occupied: Vec<u64>,
    special: Vec<u64>,
    rows: Vec<Row>,
    specials: Vec<u32>,
    lines: Vec<Line>,
}

impl Sweep {
    fn new(columns: usize, sets: &[Place<'_>]) -> Self {
        let mut background = vec![[0; LINE / 64]; columns];
        for (cube, set) in sets.iter().enumerate() {
            if matches!(set, Place::Any) {
                set_bit(&mut background, cube, true);
            }
        }
        let pages = columns.div_ceil(PAGE);
        Self {
            now: background.clone(),
            numbers: (0..columns as u32).collect(),
            changed: (0..columns).collect(),
            known: HashMap::default(),
            occupied: vec![0; pages],
            special: vec![0; pages],
            rows: Vec::new(),
            specials: Vec::new(),
            lines: background,
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

    /// Writes the rows of an interval.
    fn finish_interval(&mut self) {
        for column in self.changed.drain(..) {
            let line = self.now[column];
            let number = if line == self.lines[column] {
                column as u32
            } else {
                *self.known.entry(line).or_insert_with(|| {
                    self.lines.push(line);
                    self.lines.len() as u32 - 1
                })
            };
            self.numbers[column] = number;
            let (page, bit) = (column / PAGE, 1 << (column % PAGE));
            set_if(&mut self.occupied[page], bit, line != [0; LINE / 64]);
            set_if(&mut self.special[page], bit, number != column as u32);
        }
        for (page, (&occupied, &special)) in self.occupied.iter().zip(&self.special).enumerate() {
            let first = self.specials.len() as u32;
            self.rows.push(Row { occupied, special, first });
            let mut left = special;
            while left != 0 {
                let column = page * PAGE + left.trailing_zeros() as usize;
                self.specials.push(self.numbers[column]);
                left &= left - 1;
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.specials) + size_of_val(&*self.lines)
    }
}

fn set_bit(lines: &mut [Line], cube: usize, to: bool) {
    if let Some(line) = lines.get_mut(cube / LINE) {
        set_if(&mut line[cube % LINE / 64], 1 << (cube % 64), to);
    }
}

fn set_if(word: &mut u64, bit: u64, to: bool) {
    *word = if to { *word | bit } else { *word & !bit };
}
