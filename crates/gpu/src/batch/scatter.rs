//! Copies written slices back into packets.

use std::ops::Range;

use millrace_core::Packet;

use crate::plan::{Plan, Slice, Way};
use crate::region::{Base, Extent, Layers, View, view_bytes_mut};

impl Plan {
    /// True if a stage writes a slice, so that packets change.
    pub fn writes(&self) -> bool {
        self.slices.iter().any(is_written)
    }

    /// Copies the slices that stages wrote from a slot that is done into packets. The first packet is that of row
    /// `first`.
    ///
    /// Bytes that did not change are not written. So a packet that no stage changed is not touched, and a shared
    /// packet that a stage changed is copied once; the core counts that copy.
    pub fn scatter(&self, block: &[u8], first: usize, packets: &mut [Packet]) {
        if !self.writes() {
            return;
        }
        let is_anno = |slice: &&Slice| slice.merged.base == Base::Annotation;
        let of_area = || self.slices.iter().filter(|slice| is_written(slice) && is_anno(slice));
        let of_packet = || self.slices.iter().filter(|slice| is_written(slice) && !is_anno(slice));
        let depth = of_packet().map(|slice| slice.merged.base).max();
        for (row, packet) in (first..self.capacity).zip(packets) {
            for slice in of_area() {
                for (place, new) in parts(slice, row, &Layers::default(), block) {
                    write(packet.annotations_mut(), place, new);
                }
            }
            let Some(depth) = depth else { continue };
            let View { bytes, layers } = View::of(packet, depth);
            let mut parts = of_packet().flat_map(|slice| parts(slice, row, &layers, block));
            // The first part that changes the packet. The parts before it do not change it.
            let Some(changed) =
                parts.find(|(place, new)| bytes.get(place.clone()).is_some_and(|old| old != *new))
            else {
                continue;
            };
            let bytes = view_bytes_mut(packet);
            // The header positions are still those from before, even if headers are written.
            for (place, new) in std::iter::once(changed).chain(parts) {
                write(bytes, place, new);
            }
        }
    }
}

fn is_written(slice: &Slice) -> bool {
    !slice.merged.written.is_empty()
}

fn write(bytes: &mut [u8], place: Range<usize>, new: &[u8]) {
    if let Some(old) = bytes.get_mut(place) {
        old.copy_from_slice(new);
    }
}

/// The parts of a row that stages write and that the packet has: their ranges in the view's bytes (or in the
/// annotation area), and the bytes in the slot.
#[inline]
fn parts<'a>(
    slice: &'a Slice,
    row: usize,
    layers: &Layers,
    block: &'a [u8],
) -> impl Iterator<Item = (Range<usize>, &'a [u8])> {
    let (start, limit) = layers.bounds(slice.merged.base, Extent::Bytes(0));
    let start = start + i64::from(slice.merged.begin);
    slice.merged.written.iter().filter_map(move |part| {
        let at = start + i64::from(part.start);
        let end = limit.min(at + i64::from(part.end - part.start));
        // A slice that is not copied to the device contains only what the kernel wrote, and the kernel writes from
        // the first byte on.
        let from = if slice.way == Way::Out && at < 0 { end } else { at.max(0) };
        if from >= end {
            return None;
        }
        let in_block = slice.column.of(row) + part.start as usize + (from - at) as usize;
        let (from, end) = (from as usize, end as usize);
        Some((from..end, block.get(in_block..in_block + (end - from))?))
    })
}
