//! Written slices back into packets.

use std::ops::Range;

use millrace_core::Packet;

use crate::plan::{Plan, Slice, Way};
use crate::region::{Base, Extent, Layers, View, view_bytes_mut};

impl Plan {
    /// Whether any slice is written, and packets change.
    pub fn writes(&self) -> bool {
        self.slices.iter().any(|slice| !slice.merged.written.is_empty())
    }

    /// Copies the slices that stages wrote from a slot that is done into packets, those of the rows from `first` on.
    ///
    /// Bytes that are as they were are left alone, so a packet that no stage changed is not written, and a shared one
    /// that some stage changed gets a copy of its own, once, which core counts.
    pub fn scatter(&self, block: &[u8], first: usize, packets: &mut [Packet]) {
        if !self.writes() {
            return;
        }
        for (row, packet) in (first..self.capacity).zip(packets) {
            // Found before anything is written: what is written may be a header.
            let layers = Layers::of(packet, self.depth);
            for slice in &self.slices {
                for part in &slice.merged.written {
                    scatter_part(slice, part, block, row, packet, &layers);
                }
            }
        }
    }
}

fn scatter_part(
    slice: &Slice,
    part: &Range<u32>,
    block: &[u8],
    row: usize,
    packet: &mut Packet,
    layers: &Layers,
) {
    let base = slice.merged.base;
    let (start, limit) = layers.bounds(base, Extent::Bytes(0));
    let at = start + i64::from(slice.merged.begin) + i64::from(part.start);
    let end = limit.min(at + i64::from(part.end - part.start));
    // What is not copied to the device is only there when the kernel wrote it, which it does from the first byte on.
    let from = if slice.way == Way::Out && at < 0 { end } else { at.max(0) };
    if from >= end {
        return;
    }
    let in_row = part.start as usize + (from - at) as usize;
    let (from, end) = (from as usize, end as usize);
    let in_block = slice.column.of(row) + in_row;
    let Some(new) = block.get(in_block..in_block + (end - from)) else { return };
    if base == Base::Annotation {
        if let Some(old) = packet.annotations_mut().get_mut(from..end) {
            old.copy_from_slice(new);
        }
        return;
    }
    let view = View::of(packet, Base::Ethernet);
    if view.bytes.get(from..end).is_none_or(|old| old == new) {
        return;
    }
    if let Some(old) = view_bytes_mut(packet).get_mut(from..end) {
        old.copy_from_slice(new);
    }
}
