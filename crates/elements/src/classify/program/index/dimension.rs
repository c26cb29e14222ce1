//! One field of the index: finds the cubes that contain a value.
//!
//! The values at which cubes begin or end divide the field into *intervals*. Each interval has a bit for every cube,
//! grouped into *lines* of [`LINE`] bits, of which [`GROUP`] are kept together. Most groups of an interval are empty,
//! or contain only the cubes for which the field does not matter. A *row* consists of the numbers of an interval's
//! groups, and a bit for each line that is not empty. Equal groups and equal rows are stored once, so memory grows with
//! the conditions on the field, not with the product of intervals and cubes. If all cubes are in one line, a row is
//! that line.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Sections;
use super::fields::Field;
use super::intervals::Intervals;
use super::sets::ValueSet;

/// Bits of a line.
pub(super) const LINE: usize = 64;

/// Lines of a page, which is what one row describes.
pub(super) const PAGE: usize = 64;

/// The maximum size of a field's intervals in bytes; conditions on a larger field are checked rule by rule.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Lines that are kept together: one cache line.
const GROUP: usize = 8;

/// Groups of a page.
const GROUPS: usize = PAGE / GROUP;

type Group = [u64; GROUP];

/// The index of one field.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    /// The position of the field: the section, and its first byte there.
    section: u8,
    start: u16,
    intervals: Intervals,
    /// The row of packets without the field.
    missing: u32,
    /// For each row and page, the lines that contain a cube; with only one line, that line.
    occupied: Box<[u64]>,
    /// For each row and page, its groups.
    rows: Box<[[u32; GROUPS]]>,
    groups: Box<[Group]>,
}

impl Dimension {
    /// The dimension of a field; `sets` has the set of each cube at its place, and the places that have no cube. `None`
    /// if it needs more than [`MAX_BYTES`].
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
            rows: sweep.rows.into(),
            groups: sweep.groups.into(),
        })
    }

    /// Writes the rows of packets. In the result, a bit is set for each packet that lacks the field.
    #[inline(always)]
    pub(super) fn find<const N: usize>(
        &self,
        packets: &[Sections<'_>; N],
        rows: &mut [u32; N],
    ) -> u32 {
        match &self.intervals {
            Intervals::Word(search) => {
                let mut values = [0; N];
                let short = self.find_by(packets, &mut values, u32::from_be_bytes);
                *rows = search.find(&values);
                let mut left = short;
                while left != 0 {
                    rows[left.trailing_zeros() as usize % N] = self.missing;
                    left &= left - 1;
                }
                short
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
        let (section, start) = (self.section, usize::from(self.start));
        let mut short = 0;
        for lane in 0..N {
            // Branches instead of an index keep the sections in registers.
            let bytes = match section {
                1 => packets[lane][1],
                2 => packets[lane][2],
                _ => packets[lane][0],
            };
            let value = bytes.get(start..).and_then(|rest| rest.first_chunk());
            rows[lane] = match value {
                Some(value) => row(*value),
                None => {
                    short |= 1 << lane;
                    self.missing
                }
            };
        }
        short
    }

    /// The lines of a page that contain a cube; with only one line, that line. `at` counts rows times pages.
    #[inline(always)]
    pub(super) fn occupied(&self, at: usize) -> u64 {
        self.occupied.get(at).copied().unwrap_or(0)
    }

    /// A line, by the row and page at `at`; `column` is the line's index within all pages.
    #[inline(always)]
    pub(super) fn line(&self, at: usize, column: usize) -> u64 {
        let Some(row) = self.rows.get(at) else { return 0 };
        let group = self.groups.get(row[column / GROUP % GROUPS] as usize);
        group.map_or(0, |group| group[column % GROUP])
    }

    /// The size of the tables in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.intervals.bytes()
            + size_of_val(&*self.occupied)
            + size_of_val(&*self.rows)
            + size_of_val(&*self.groups)
    }
}

/// The content of a cube's place: nothing, any value, or its set for the field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Empty,
    Any,
    Set(&'a ValueSet),
}

impl<'a> Place<'a> {
    /// The content of a cube's place, given the cube's set, if there is a cube.
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

/// The values where cubes begin and end, in order.
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

/// The lines while the sweep goes from the lowest value to the highest.
struct Sweep {
    /// Whole pages.
    now: Vec<Group>,
    /// The numbers of the groups, and which groups have changed since.
    numbers: Vec<u32>,
    changed: Vec<usize>,
    occupied: Vec<u64>,
    known_groups: HashMap<Group, u32, FixedState>,
    known_rows: HashMap<Box<[u32]>, u32, FixedState>,
    occupied_rows: Vec<u64>,
    rows: Vec<[u32; GROUPS]>,
    groups: Vec<Group>,
}

impl Sweep {
    fn new(columns: usize, sets: &[Place<'_>]) -> Self {
        let pages = columns.div_ceil(PAGE);
        let mut now = vec![[0; GROUP]; pages * GROUPS];
        for (cube, set) in sets.iter().enumerate() {
            if matches!(set, Place::Any) {
                set_bit(&mut now, cube, true);
            }
        }
        Self {
            numbers: vec![0; now.len()],
            changed: (0..now.len()).collect(),
            now,
            occupied: vec![0; pages],
            known_groups: HashMap::default(),
            known_rows: HashMap::default(),
            occupied_rows: Vec::new(),
            rows: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event) {
        let cube = event.cube as usize;
        set_bit(&mut self.now, cube, event.begins);
        let group = cube / LINE / GROUP;
        if self.changed.last() != Some(&group) {
            self.changed.push(group);
        }
    }

    /// Sets the bits of the cubes that packets without the field can lie in.
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

    /// The row of the current interval.
    fn finish_interval(&mut self) -> u32 {
        for at in self.changed.drain(..) {
            let group = self.now[at];
            for (nth, &line) in group.iter().enumerate() {
                let bit = 1 << (at % GROUPS * GROUP + nth);
                set_if(&mut self.occupied[at / GROUPS], bit, line != 0);
            }
            self.numbers[at] = *self.known_groups.entry(group).or_insert_with(|| {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            });
        }
        if let Some(&row) = self.known_rows.get(&self.numbers[..]) {
            return row;
        }
        let row = self.known_rows.len() as u32;
        self.known_rows.insert(self.numbers.clone().into(), row);
        self.rows.extend(self.numbers.as_chunks().0);
        self.occupied_rows.extend(&self.occupied);
        row
    }

    /// Stores the line itself instead of which lines are occupied.
    fn reduce_to_line(&mut self) {
        for (line, row) in self.occupied_rows.iter_mut().zip(&self.rows) {
            *line = self.groups.get(row[0] as usize).map_or(0, |group| group[0]);
        }
        self.rows.clear();
        self.groups.clear();
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.occupied_rows) + size_of_val(&*self.rows) + size_of_val(&*self.groups)
    }
}

fn set_bit(lines: &mut [Group], cube: usize, to: bool) {
    if let Some(group) = lines.get_mut(cube / LINE / GROUP) {
        set_if(&mut group[cube / LINE % GROUP], 1 << (cube % LINE), to);
    }
}

fn set_if(word: &mut u64, bit: u64, to: bool) {
    *word = if to { *word | bit } else { *word & !bit };
}
