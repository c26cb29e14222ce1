//! Copies packets into the columns of a slot.

use millrace_core::Packet;

use crate::kernel::{Column, TILE};
use crate::plan::{Packed, Plan, Slice, Way};
use crate::region::union::Merged;
use crate::region::{Base, Extent, Layers, View};

/// The state of gathering a batch.
///
/// Packets are added as they arrive, up to an engine batch at a time, so that their bytes are copied while they are
/// in the cache. The slot's memory is borrowed only during each call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    rows: usize,
    payload: usize,
}

/// The number of packets whose headers are parsed before their columns are filled: as many as stay in the first-level
/// cache.
const RUN: usize = 32;

impl Gather {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of packets that were gathered.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of bytes of packed payload.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Gathers packets after those that were gathered before, and returns how many fitted. If that is not all, the
    /// batch is full.
    ///
    /// If the first packet has more payload than a slot has room for (see [`Plan::fits`]), none fits into an empty
    /// batch. Then the CPU processes this packet as a batch of its own, in its place in the order.
    ///
    /// `block` must be [`Plan::slot_bytes`] long; nothing fits into a shorter one.
    pub fn add(&mut self, plan: &Plan, packets: &[Packet], block: &mut [u8]) -> usize {
        if block.len() < plan.slot_bytes {
            return 0;
        }
        let mut rest = packets;
        while !rest.is_empty() && self.rows < plan.capacity {
            let most = RUN.min(TILE - self.rows % TILE).min(rest.len());
            let (run, behind) = rest.split_at_checked(most).unwrap_or((rest, &[]));
            let fitted = self.add_run(plan, run, block);
            self.rows += fitted;
            if fitted < run.len() {
                return packets.len() - rest.len() + fitted;
            }
            rest = behind;
        }
        packets.len() - rest.len()
    }

    /// Gathers some packets of one tile.
    fn add_run(&mut self, plan: &Plan, packets: &[Packet], block: &mut [u8]) -> usize {
        let mut views = [View::default(); RUN];
        if plan.depth > Base::Annotation {
            for (view, packet) in views.iter_mut().zip(packets) {
                view.look_at(packet, plan.depth);
            }
        }
        let mut views = views.get(..packets.len()).unwrap_or_default();
        if !plan.payloads.is_empty() {
            let fitted = self.add_payload(plan, views, block);
            views = views.get(..fitted).unwrap_or_default();
        }
        let packets = packets.get(..views.len()).unwrap_or_default();
        for slice in plan.slices.iter().filter(|slice| slice.way != Way::Out) {
            copy_slice(slice, self.rows, packets, views, block);
        }
        for valid in &plan.valids {
            let lengths =
                views.iter().map(|view| (view.layers.span(&valid.region).1 as u16).to_ne_bytes());
            fill_column(valid.column, self.rows, lengths, block);
        }
        if let Some(column) = plan.predicate {
            fill_column(column, self.rows, views.iter().map(|_| [0; 4]), block);
        }
        views.len()
    }

    /// Packs payload, and returns the number of packets that fitted.
    fn add_payload(&mut self, plan: &Plan, views: &[View<'_>], block: &mut [u8]) -> usize {
        for (index, view) in views.iter().enumerate() {
            if padded_payload(plan, &view.layers) > plan.payload_bytes.saturating_sub(self.payload)
            {
                return index;
            }
            let row = self.rows + index;
            for packed in &plan.payloads {
                let bytes = view.slice(&packed.region);
                let (offset, length) = (self.payload as u32, bytes.len() as u32);
                put(block, packed.offset.of(row), offset.to_ne_bytes());
                put(block, packed.length.of(row), length.to_ne_bytes());
                let at = plan.payload.at as usize + self.payload;
                let room = bytes.len().next_multiple_of(16);
                if let Some((to, padding)) =
                    block.get_mut(at..at + room).and_then(|to| to.split_at_mut_checked(bytes.len()))
                {
                    to.copy_from_slice(bytes);
                    padding.fill(0);
                }
                self.payload += room;
            }
        }
        views.len()
    }
}

impl Plan {
    /// Whether a packet's payload fits into a slot at all.
    pub fn fits(&self, packet: &Packet) -> bool {
        self.payloads.is_empty()
            || padded_payload(self, &Layers::of(packet, self.depth)) <= self.payload_bytes
    }
}

fn padded_payload(plan: &Plan, layers: &Layers) -> usize {
    let padded = |packed: &Packed| layers.span(&packed.region).1.next_multiple_of(16);
    plan.payloads.iter().map(padded).sum()
}

/// Fills a slice's column for rows of one tile.
fn copy_slice(slice: &Slice, row: usize, packets: &[Packet], views: &[View<'_>], block: &mut [u8]) {
    let at = slice.column.of(row);
    let len = packets.len() * slice.merged.bytes as usize;
    let Some(column) = block.get_mut(at..at + len) else { return };
    let merged = &slice.merged;
    match merged.bytes {
        4 => copy_rows::<4>(merged, packets, views, column),
        8 => copy_rows::<8>(merged, packets, views, column),
        12 => copy_rows::<12>(merged, packets, views, column),
        16 => copy_rows::<16>(merged, packets, views, column),
        20 => copy_rows::<20>(merged, packets, views, column),
        24 => copy_rows::<24>(merged, packets, views, column),
        40 => copy_rows::<40>(merged, packets, views, column),
        _ => copy_long_rows(merged, packets, views, column),
    }
}

/// Rows of a length that is known when this is compiled: some moves each.
fn copy_rows<const N: usize>(
    merged: &Merged,
    packets: &[Packet],
    views: &[View<'_>],
    column: &mut [u8],
) {
    let (rows, _) = column.as_chunks_mut::<N>();
    if merged.base == Base::Annotation {
        let begin = merged.begin as usize;
        for (row, packet) in rows.iter_mut().zip(packets) {
            if let Some(bytes) = packet.annotations().get(begin..).and_then(<[u8]>::first_chunk) {
                *row = *bytes;
            }
        }
        return;
    }
    for (row, view) in rows.iter_mut().zip(views) {
        let (at, limit) = bounds(view, merged);
        // In front of the first byte it is a large number, too.
        let whole = (at.wrapping_add(N as i64) <= limit)
            .then(|| view.bytes.get(at as usize..).and_then(<[u8]>::first_chunk))
            .flatten();
        match whole {
            Some(bytes) => *row = *bytes,
            None => copy_cut_row(view, at, limit, row),
        }
    }
}

fn copy_long_rows(merged: &Merged, packets: &[Packet], views: &[View<'_>], column: &mut [u8]) {
    let rows = column.chunks_exact_mut(merged.bytes as usize);
    for (row, (view, packet)) in rows.zip(views.iter().zip(packets)) {
        if merged.base == Base::Annotation {
            let begin = merged.begin as usize;
            if let Some(bytes) = packet.annotations().get(begin..begin + row.len()) {
                row.copy_from_slice(bytes);
            }
            continue;
        }
        let (at, limit) = bounds(view, merged);
        copy_cut_row(view, at, limit, row);
    }
}

#[inline]
fn bounds(view: &View<'_>, merged: &Merged) -> (i64, i64) {
    let (start, limit) = view.layers.bounds(merged.base, Extent::Bytes(0));
    (start + i64::from(merged.begin), limit)
}

/// What the packet has of a row, and zeros in front and behind.
#[inline(never)]
fn copy_cut_row(view: &View<'_>, at: i64, limit: i64, row: &mut [u8]) {
    let end = limit.min(at + row.len() as i64);
    let from = at.max(0);
    if from >= end {
        return row.fill(0);
    }
    let (front, len) = ((from - at) as usize, (end - from) as usize);
    let bytes = view.bytes.get(from as usize..end as usize).unwrap_or_default();
    let (before, rest) = row.split_at_mut(front);
    before.fill(0);
    let (middle, behind) = rest.split_at_mut(len.min(bytes.len()));
    middle.copy_from_slice(bytes);
    behind.fill(0);
}

/// Fills a column of numbers for rows of one tile.
fn fill_column<const N: usize>(
    column: Column,
    row: usize,
    values: impl ExactSizeIterator<Item = [u8; N]>,
    block: &mut [u8],
) {
    let at = column.of(row);
    let Some(column) = block.get_mut(at..at + N * values.len()) else { return };
    let (rows, _) = column.as_chunks_mut::<N>();
    for (row, value) in rows.iter_mut().zip(values) {
        *row = value;
    }
}

fn put<const N: usize>(block: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(slot) = block.get_mut(at..at + N) {
        slot.copy_from_slice(&value);
    }
}
