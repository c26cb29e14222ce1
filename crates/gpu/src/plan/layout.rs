//! The positions of all columns in a slot.

use std::ops::Range;

use super::node::{Node, PlanError};
use crate::kernel::{Column, Header, Launch, TILE};
use crate::region::union::{self, Merged, Request};
use crate::region::{Access, Base, Extent, Region};

/// Bytes before the input area: the header, rounded up to the size of a device's widest access.
pub const HEADER_BYTES: usize = 256;
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// A part of a slot that is copied at once. For `n` rows, its first `n / TILE` tiles are copied, rounded up, so the
/// cost depends on the actual size of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Its offset in the slot.
    pub at: u32,
    /// The number of bytes of a tile.
    pub tile: u32,
}

impl Area {
    /// The range of the first tiles.
    pub(super) fn range(self, tiles: usize) -> Range<usize> {
        let at = self.at as usize;
        at..at + tiles * self.tile as usize
    }
}

/// The directions in which a column is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the device.
    In,
    /// To the device and back.
    Both,
    /// To the host only.
    Out,
}

/// A column of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The bytes of the packets.
    pub merged: Merged,
    /// Its position; the stride is the slice's length.
    pub column: Column,
    /// The directions in which it is copied.
    pub way: Way,
}

/// A column of `u16`: the number of bytes that each packet has of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Valid {
    /// The region.
    pub region: Region,
    /// Its position.
    pub column: Column,
}

/// The packed payload of a region to the packet's end. Each packet's part begins at a multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The region.
    pub region: Region,
    /// `u32`: the offset of each packet's part in the payload area.
    pub offset: Column,
    /// `u32`: the number of its bytes.
    pub length: Column,
}

/// The layout while it is made.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) slices: Vec<Slice>,
    pub(super) valids: Vec<Valid>,
    pub(super) payloads: Vec<Packed>,
    pub(super) predicate: Option<Column>,
    pub(super) results: Vec<Column>,
    pub(super) areas: [Area; 3],
}

/// The layout for all requests of some nodes. `treats_all` contains for each node whether it processes every row.
pub(super) fn layout(
    nodes: &[Node],
    requests: &[Request],
    treats_all: &[bool],
    has_predicate: bool,
    capacity: usize,
) -> Result<Layout, PlanError> {
    let mut layout = Layout::default();
    let mut tiles = [0u64; 3];
    for merged in union::union(requests) {
        let way = way(&merged, requests, treats_all);
        let column = reserve(&mut tiles, way, merged.bytes);
        layout.slices.push(Slice { merged, column, way });
    }
    for &Request { region, .. } in requests {
        match region.extent {
            Extent::ToEnd if !layout.payloads.iter().any(|one| one.region == region) => {
                let offset = reserve(&mut tiles, Way::In, 4);
                let length = reserve(&mut tiles, Way::In, 4);
                layout.payloads.push(Packed { region, offset, length });
            }
            Extent::ToEnd => {}
            Extent::Bytes(_) if has_all(&region) => {}
            Extent::Bytes(_) => {
                let region = Region { access: Access::Read, ..region };
                if !layout.valids.iter().any(|one| one.region == region) {
                    let column = reserve(&mut tiles, Way::In, 2);
                    layout.valids.push(Valid { region, column });
                }
            }
        }
    }
    layout.predicate = has_predicate.then(|| reserve(&mut tiles, Way::Both, 4));
    layout.results = nodes.iter().map(|_| reserve(&mut tiles, Way::Out, 4)).collect();
    layout.place(tiles, capacity).map_err(|message| PlanError { node: 0, message })?;
    Ok(layout)
}

/// True if every packet has the whole region, so that no column with the number of bytes is needed: annotations that
/// are only read. A kernel that writes always gets the number, because it must know where its slice ends.
fn has_all(region: &Region) -> bool {
    region.base == Base::Annotation && !region.access.writes()
}

/// Reserves space in the tiles of an area. The offset of the area is added later.
fn reserve(tiles: &mut [u64; 3], way: Way, stride: u32) -> Column {
    let [input, both, output] = tiles;
    let used = match way {
        Way::In => input,
        Way::Both => both,
        Way::Out => output,
    };
    let at = *used as u32;
    *used += u64::from(stride) * TILE as u64;
    Column { at, tile: 0, stride }
}

/// The directions of a column. It is copied only to the host if one stage writes it without reading it, for every
/// row. In all other cases, rows that are not processed must keep the packet's bytes.
fn way(merged: &Merged, requests: &[Request], treats_all: &[bool]) -> Way {
    if merged.written.is_empty() {
        return Way::In;
    }
    let mut stages = requests
        .iter()
        .filter(|request| merged.place(&request.region).is_some())
        .map(|request| request.stage);
    let first = stages.next();
    let is_of_one = stages.all(|stage| Some(stage) == first);
    let treats_all = first.and_then(|stage| treats_all.get(stage)).copied().unwrap_or(false);
    if !merged.read && is_of_one && treats_all { Way::Out } else { Way::Both }
}

impl Layout {
    /// Places the areas one after the other.
    fn place(&mut self, tiles: [u64; 3], capacity: usize) -> Result<(), String> {
        let mut at = HEADER_BYTES as u64;
        for (area, tile) in self.areas.iter_mut().zip(tiles) {
            let end = at + tile * (capacity / TILE) as u64;
            if end > u64::from(u32::MAX) {
                return Err(format!("the slices of {capacity} packets take more than 4 GiB"));
            }
            *area = Area { at: at as u32, tile: tile as u32 };
            at = end;
        }
        let [input, both, output] = self.areas;
        let place = |column: &mut Column, area: Area| {
            column.at += area.at;
            column.tile = area.tile;
        };
        for slice in &mut self.slices {
            let area = match slice.way {
                Way::In => input,
                Way::Both => both,
                Way::Out => output,
            };
            place(&mut slice.column, area);
        }
        self.valids.iter_mut().for_each(|valid| place(&mut valid.column, input));
        for payload in &mut self.payloads {
            place(&mut payload.offset, input);
            place(&mut payload.length, input);
        }
        self.predicate.iter_mut().for_each(|column| place(column, both));
        self.results.iter_mut().for_each(|column| place(column, output));
        Ok(())
    }

    /// The end of the columns.
    pub(super) fn end(&self, capacity: usize) -> usize {
        let [_, _, output] = self.areas;
        output.range(capacity / TILE).end
    }

    /// Sets the columns of a stage's regions in its launch.
    pub(super) fn columns_of(&self, regions: &[Region], launch: &mut Launch) {
        let inputs = launch.input.iter_mut().zip(&mut launch.valid);
        for (region, (input, valid)) in regions.iter().zip(inputs) {
            if region.extent == Extent::ToEnd {
                if let Some(packed) = self.payloads.iter().find(|one| one.region == *region) {
                    (launch.offset, launch.length) = (packed.offset, packed.length);
                }
                continue;
            }
            *input = self.column_of(region);
            *valid = self.valid_of(region);
        }
    }

    fn column_of(&self, region: &Region) -> Column {
        let place = |slice: &Slice| {
            let place = slice.merged.place(region)?;
            Some(Column { at: slice.column.at + place, ..slice.column })
        };
        self.slices.iter().find_map(place).unwrap_or_default()
    }

    fn valid_of(&self, region: &Region) -> Column {
        if has_all(region) {
            return Column::default();
        }
        let region = Region { access: Access::Read, ..*region };
        let valid = self.valids.iter().find(|valid| valid.region == region);
        valid.map(|valid| valid.column).unwrap_or_default()
    }
}
