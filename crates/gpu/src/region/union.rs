//! The union of all regions that a plan's stages use.
//!
//! Regions of one base that overlap share a column. Adjacent regions share one too, unless only one of them is
//! written, because written columns are copied in both directions. Each request keeps its own position in the shared
//! column. Columns begin and end at multiples of four bytes from their base, so that fields that are aligned in a
//! header are aligned in its column, and rows are copied in words.
//!
//! Regions to the packet's end are not columns but packed payload. Equal ones share it. Others are separate, because
//! each must begin at a multiple of 16 bytes for the kernels' wide loads.

use std::ops::Range;

use super::{Access, Base, Extent, Region};

/// A stage's request for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The stage's index in the section.
    pub stage: usize,
    /// The region.
    pub region: Region,
}

/// A column: the union of some regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The base of `begin`.
    pub base: Base,
    /// The offset of the first byte, a multiple of 4.
    pub begin: i32,
    /// The number of bytes of a row, a multiple of 4.
    pub bytes: u32,
    /// The ranges of a row that stages write, in order; overlapping ones are joined.
    pub written: Vec<Range<u32>>,
    /// True if a stage reads any of it.
    pub read: bool,
}

impl Merged {
    /// The offset of a region's bytes in a row, if the region is part of this column.
    pub fn place(&self, region: &Region) -> Option<u32> {
        let Range { start, end } = range(region)?;
        let is_within = self.base == region.base
            && start >= self.begin
            && end <= self.begin.saturating_add_unsigned(self.bytes);
        is_within.then(|| (start - self.begin) as u32)
    }
}

/// The columns for these requests, in order of base and offset.
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

/// The range of a region's bytes from its base, if it has a length.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(regions: &[Region]) -> Vec<Merged> {
        let request = |(stage, &region): (usize, &Region)| Request { stage, region };
        union(&regions.iter().enumerate().map(request).collect::<Vec<_>>())
    }

    fn network(offset: i16, bytes: u16) -> Region {
        Region::read(Base::Network, offset, bytes)
    }

    /// `(begin, bytes)` of each column.
    fn extents(regions: &[Region]) -> Vec<(i32, u32)> {
        columns(regions).iter().map(|column| (column.begin, column.bytes)).collect()
    }

    #[test]
    fn overlapping_and_adjacent_regions_share_a_column() {
        assert_eq!(extents(&[]), []);
        assert_eq!(extents(&[network(12, 4), network(16, 4)]), [(12, 8)]);
        assert_eq!(extents(&[network(16, 4), network(12, 4), network(9, 1)]), [(8, 12)]);
        assert_eq!(extents(&[network(0, 20), network(8, 2)]), [(0, 20)]);
        assert_eq!(extents(&[network(-2, 2), network(8, 2)]), [(-4, 4), (8, 4)]);
        assert_eq!(extents(&[network(0, 4), Region::read(Base::Ethernet, 4, 4)]), [(4, 4), (0, 4)]);
        assert_eq!(extents(&[Region::to_end(Base::Network, 0)]), []);
    }

    #[test]
    fn a_written_slice_does_not_extend_to_its_neighbours() {
        let written = network(12, 4).with(Access::ReadWrite);
        assert_eq!(extents(&[written, network(16, 4)]), [(12, 4), (16, 4)]);
        assert_eq!(extents(&[network(8, 4), written]), [(8, 4), (12, 4)]);
        assert_eq!(extents(&[network(10, 3), written]), [(8, 8)]);
        assert_eq!(extents(&[network(16, 4).with(Access::Write), written]), [(12, 8)]);
    }

    #[test]
    fn a_column_locates_its_regions_and_written_ranges() {
        let write = |offset, bytes| network(offset, bytes).with(Access::Write);
        let [column] = &columns(&[write(9, 2), write(12, 1), write(10, 1), network(8, 8)])[..]
        else {
            panic!("not one column")
        };
        assert_eq!(column.written, [1..3, 4..5]);
        assert!(column.read);
        assert_eq!(column.place(&write(12, 1)), Some(4));
        assert_eq!(column.place(&network(15, 2)), None);
        assert_eq!(column.place(&Region::read(Base::Transport, 12, 1)), None);
    }
}
