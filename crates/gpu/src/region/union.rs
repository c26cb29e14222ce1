//! The union of all regions that a plan's stages ask for.
//!
//! Regions of one base that overlap share a column; so do those that touch, unless only one of them is written, for what is
//! written travels both ways. Each request keeps its own place in the shared column. Columns begin and end at multiples of
//! four bytes from their base, so that what is aligned in a header is aligned in its column, and so that
//! rows are copied in words.
//!
//! Regions to the packet's end are no columns but packed payload; equal ones share it, others are kept apart, as each must begin
//! at 16 bytes for the kernels' wide loads.

use std::ops::Range;

use super::{Access, Base, Extent, Region};

/// What stage asks for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The stage's place in the section.
    pub stage: usize,
    /// The region.
    pub region: Region,
}

/// A column: the union of some regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// What `begin` counts from.
    pub base: Base,
    /// The first byte, a multiple of 4.
    pub begin: i32,
    /// Bytes of a row, a multiple of 4.
    pub bytes: u32,
    /// The parts of a row that stages write, in order; those that overlap are one.
    pub written: Vec<Range<u32>>,
    /// Whether some stage reads any of it.
    pub read: bool,
}

impl Merged {
    /// Where a region's bytes are in a row, if it is part of this column.
    pub fn place(&self, region: &Region) -> Option<u32> {
        let Range { start, end } = range(region)?;
        let is_within = self.base == region.base
            && start >= self.begin
            && end <= self.begin.saturating_add_unsigned(self.bytes);
        is_within.then(|| (start - self.begin) as u32)
    }
}

/// The columns that requests come to, in order of base and offset.
pub fn union(requests: &[Request]) -> Vec<Merged> {
    let mut columns: Vec<Merged> = Vec::new();
    for base in Base::ALL {
        let mut parts: Vec<(Range<i32>, Access)> = requests
            .iter()
            .filter(|request| request.region.base == base)
            .filter_map(|request| Some((range(&request.region)?, request.region.access)))
            .collect();
        parts.sort_by_key(|(range, access)| (range.start, range.end, access.writes()));
        let mut last: Option<Merged> = None;
        for (range, access) in parts {
            let (begin, end) = (range.start & !3, (range.end + 3) & !3);
            let column = match last.take() {
                Some(column) if continues(&column, begin, access) => column,
                other => {
                    columns.extend(other);
                    Merged { base, begin, bytes: 0, written: Vec::new(), read: false }
                }
            };
            last = Some(grown(column, range, end, access));
        }
        columns.extend(last);
    }
    columns
}

/// A region's bytes from its base on, if it has a length.
pub(crate) fn range(region: &Region) -> Option<Range<i32>> {
    match region.extent {
        Extent::Bytes(bytes) => {
            let start = i32::from(region.offset);
            Some(start..start + i32::from(bytes))
        }
        Extent::ToEnd => None,
    }
}

fn continues(column: &Merged, begin: i32, access: Access) -> bool {
    let end = column.begin.saturating_add_unsigned(column.bytes);
    begin < end || (begin == end && access.writes() != column.written.is_empty())
}

fn grown(mut column: Merged, range: Range<i32>, end: i32, access: Access) -> Merged {
    column.bytes = column.bytes.max((end - column.begin) as u32);
    column.read |= access != Access::Write;
    if access.writes() {
        let part = (range.start - column.begin) as u32..(range.end - column.begin) as u32;
        match column.written.last_mut() {
            Some(last) if part.start < last.end => last.end = last.end.max(part.end),
            _ => column.written.push(part),
        }
    }
    column
}
