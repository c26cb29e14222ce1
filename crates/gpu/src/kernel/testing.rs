//! Batches for tests of kernels. Columns have the layout of a plan, rows are processed in any order, and the tests
//! check that nothing else was written. The kernel's PTX processes each batch as well ([`ptx`]), and [`sanitize`]
//! runs all of them again.

#![allow(unsafe_code, reason = "calls the kernels, which are C")]

pub(crate) mod case;
mod hostile;
mod ptx;
mod sanitize;

use case::Case;
use fastrand::Rng;

use super::{Column, Condition, Header, Kernel, Launch, NONE, TILE};

/// The contents of unused bytes.
const POISON: u8 = 0xa5;

/// The bytes of a slice for each row, and the length of the slice. Shorter rows are padded with zeros.
pub(crate) struct Slice<'a> {
    pub(crate) rows: &'a [Vec<u8>],
    pub(crate) width: usize,
}

/// A slot with a batch, and the launch that processes it.
pub(crate) struct Batch {
    /// Words of 16 bytes, the alignment of slots.
    memory: Vec<u128>,
    pub(crate) launch: Launch,
    rows: usize,
    /// The number of bytes of each slice.
    widths: Vec<usize>,
}

impl Batch {
    /// A batch with slices, and optionally with a payload for each row. `rng` chooses the positions of columns.
    pub(crate) fn new(
        rng: &mut Rng,
        rows: usize,
        slices: &[Slice<'_>],
        payloads: &[Vec<u8>],
    ) -> Self {
        let mut launch = Launch::default();
        let tiles = rows.div_ceil(TILE);
        let mut tile = 0;
        let mut column = |bytes: usize, align: usize, gap: usize| {
            tile = (tile + gap).next_multiple_of(align);
            let stride = (bytes + if align == 1 { gap } else { 0 }).max(1);
            let at = tile;
            tile += stride * TILE;
            Column { at: at as u32, tile: 0, stride: stride as u32 }
        };
        for (index, slice) in slices.iter().enumerate() {
            // In a merged column, slices are at any offset, and the distance between rows is greater than the length
            // of a slice.
            let (align, gap) = if rng.bool() { (4, 0) } else { (1, rng.usize(0..5)) };
            launch.input[index] = column(slice.width, align, gap);
            launch.valid[index] = column(2, 2, 0);
        }
        launch.predicate = column(4, 4, 0);
        launch.result = column(4, 4, 0);
        if !payloads.is_empty() {
            launch.offset = column(4, 4, 0);
            launch.length = column(4, 4, 0);
        }
        let tile = tile.next_multiple_of(16);
        let start = size_of::<Header>().next_multiple_of(16);
        for column in launch.columns() {
            if column.stride != 0 {
                column.at += start as u32;
                column.tile = tile as u32;
            }
        }
        launch.payload = (start + tiles * tile) as u32;
        let payload: usize =
            payloads.iter().map(|payload| payload.len().next_multiple_of(16)).sum();
        let bytes = launch.payload as usize + payload;
        let memory = vec![u128::from_ne_bytes([POISON; 16]); bytes / 16];
        let widths = slices.iter().map(|slice| slice.width).collect();
        let mut batch = Self { memory, launch, rows, widths };
        batch.put(0, &(rows as u32).to_ne_bytes());
        batch.put(8, &(payload as u32).to_ne_bytes());
        for (index, slice) in slices.iter().enumerate() {
            for (row, bytes) in slice.rows.iter().enumerate() {
                let mut padded = bytes.clone();
                padded.resize(slice.width, 0);
                batch.put(launch.input[index].of(row), &padded);
                let valid = bytes.len() as u16;
                batch.put(launch.valid[index].of(row), &valid.to_ne_bytes());
            }
        }
        let mut offset = 0;
        for (row, payload) in payloads.iter().enumerate() {
            batch.put(launch.offset.of(row), &(offset as u32).to_ne_bytes());
            batch.put(launch.length.of(row), &(payload.len() as u32).to_ne_bytes());
            batch.put(launch.payload as usize + offset, payload);
            offset += payload.len().next_multiple_of(16);
        }
        batch.launch = launch;
        for row in 0..rows {
            batch.set_predicate(row, 0);
        }
        batch
    }

    pub(crate) fn set_predicate(&mut self, row: usize, predicate: u32) {
        self.put(self.launch.predicate.of(row), &predicate.to_ne_bytes());
    }

    pub(crate) fn predicate(&self, row: usize) -> u32 {
        self.word(self.launch.predicate.of(row))
    }

    pub(crate) fn result(&self, row: usize) -> u32 {
        self.word(self.launch.result.of(row))
    }

    /// The bytes of a slice in a row.
    pub(crate) fn slice(&self, index: usize, row: usize, bytes: usize) -> Vec<u8> {
        self.bytes()[self.launch.input[index].of(row)..][..bytes].to_vec()
    }

    /// Sets the conditions under which rows are processed.
    pub(crate) fn set_conditions(&mut self, conditions: &[Condition]) {
        self.launch.conditions = conditions.len() as u32;
        self.launch.condition[..conditions.len()].copy_from_slice(conditions);
    }

    /// Overwrites bytes of the slot.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        zerocopy::IntoBytes::as_mut_bytes(self.memory.as_mut_slice())[at..][..bytes.len()]
            .copy_from_slice(bytes);
    }

    /// Runs a kernel over all rows: at once, and in a random order of blocks or rows. Checks that the results are
    /// equal, and that only results, predicates and `written` change, which is a slice and its bytes.
    pub(crate) fn run(
        &mut self,
        rng: &mut Rng,
        kernel: Kernel,
        table: &[u32],
        written: Option<(usize, usize)>,
    ) {
        // Tables also begin at multiples of 16 bytes.
        let mut aligned = vec![0_u128; table.len().div_ceil(4)];
        let words = zerocopy::IntoBytes::as_mut_bytes(aligned.as_mut_slice());
        words[..table.len() * 4].copy_from_slice(zerocopy::IntoBytes::as_bytes(table));
        self.launch.table = rng.u32(..16);
        self.put(16 + 8 * self.launch.table as usize, &(aligned.as_ptr() as u64).to_ne_bytes());
        let before = self.memory.clone();
        let mut order: Vec<usize> = (0..self.rows).collect();
        self.call(kernel, 0, self.rows + rng.usize(0..300));
        let at_once = std::mem::replace(&mut self.memory, before.clone());
        rng.shuffle(&mut order);
        for row in order {
            self.call(kernel, row, 1);
        }
        assert!(self.memory == at_once, "{kernel:?}: the order of rows matters");
        self.memory.clone_from(&before);
        let mut blocks: Vec<usize> = (0..self.rows.div_ceil(TILE)).collect();
        rng.shuffle(&mut blocks);
        for block in blocks {
            self.call(kernel, block * TILE, TILE);
        }
        assert!(self.memory == at_once, "{kernel:?}: the order of blocks matters");
        let with = |memory| Self { memory, widths: self.widths.clone(), ..*self };
        let (mut restored, old) = (with(at_once.clone()), with(before));
        for row in 0..self.rows {
            let mut parts =
                vec![(self.launch.predicate.of(row), 4), (self.launch.result.of(row), 4)];
            parts.extend(written.map(|(slice, bytes)| (self.launch.input[slice].of(row), bytes)));
            for (at, bytes) in parts {
                let kept = old.bytes()[at..][..bytes].to_vec();
                restored.put(at, &kept);
            }
        }
        assert!(restored.memory == old.memory, "{kernel:?} wrote elsewhere");
        let written = written.map(|(slice, _)| slice);
        let grants = case::grants(&self.launch, old.bytes(), &self.widths, written);
        let case = Case {
            kernel,
            launch: self.launch,
            before: &old.bytes()[..grants.len()],
            after: &self.bytes()[..grants.len()],
            grants: &grants,
            table,
        };
        if !case::is_observed(&case) {
            ptx::check(&case, rng);
        }
    }

    /// Checks that the kernel's PTX reads and writes only what it may, with a table that may be wrong.
    pub(crate) fn stays_inside(
        &mut self,
        rng: &mut Rng,
        kernel: Kernel,
        table: &[u32],
    ) -> Result<(), String> {
        let grants = case::grants(&self.launch, self.bytes(), &self.widths, None);
        let before = &self.bytes()[..grants.len()];
        let launch = self.launch;
        ptx::run(&Case { kernel, launch, before, after: before, grants: &grants, table }, rng)
            .map(drop)
    }

    /// Calls the kernel once.
    pub(crate) fn call(&mut self, kernel: Kernel, first: usize, rows: usize) {
        let slot = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory is aligned, and `new` laid header, columns and payload out in it; the table outlives the call.
        unsafe { kernel.host_function()(&self.launch, slot, first as u32, rows as u32) };
    }

    fn bytes(&self) -> &[u8] {
        zerocopy::IntoBytes::as_bytes(self.memory.as_slice())
    }

    fn word(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes()[at..][..4]);
        u32::from_ne_bytes(word)
    }
}

impl Launch {
    fn columns(&mut self) -> impl Iterator<Item = &mut Column> {
        let rest = [&mut self.offset, &mut self.length, &mut self.predicate, &mut self.result];
        self.input.iter_mut().chain(&mut self.valid).chain(rest)
    }
}

#[test]
pub(crate) fn invert_changes_only_the_bytes_that_the_packet_has() {
    let mut rng = Rng::with_seed(1);
    for rows in [0, 1, 255, 256, 257, 700] {
        let bytes =
            || -> Vec<u8> { (0..fastrand::usize(0..=6)).map(|_| fastrand::u8(..)).collect() };
        let slices: Vec<Vec<u8>> = (0..rows).map(|_| bytes()).collect();
        let mut batch = Batch::new(&mut rng, rows, &[Slice { rows: &slices, width: 6 }], &[]);
        // For a field of two bits at bit 3: 1 or 2.
        let conditions = [1, 2].map(|value| Condition { mask: 3 << 3, value: value << 3 });
        batch.set_conditions(&conditions);
        let fields: Vec<u32> = (0..rows).map(|_| rng.u32(0..4)).collect();
        for (row, field) in fields.iter().enumerate() {
            batch.set_predicate(row, field << 3 | 0xffff_ff01);
        }
        batch.run(&mut rng, Kernel::Invert, &[], Some((0, 6)));
        for (row, slice) in slices.iter().enumerate() {
            let mut expected = slice.clone();
            // The other bits of the predicate have no effect.
            let active = matches!(fields[row], 1 | 2);
            if active {
                expected.iter_mut().for_each(|byte| *byte = !*byte);
            }
            expected.resize(6, 0);
            assert_eq!(batch.slice(0, row, 6), expected);
            assert_eq!(batch.result(row), if active { slice.len() as u32 } else { NONE });
            assert_eq!(batch.predicate(row), fields[row] << 3 | 0xffff_ff01);
        }
    }
}
