//! The memory of a launch, and the permission of threads to access it.

use zerocopy::IntoBytes;

use super::parameters;
use super::parse::Space;
use crate::kernel::testing::case::{Case, Grant, Owner};

/// The addresses of the slot and its table: beyond 4 GiB, and multiples of 16 but of no higher power of two.
pub(super) const SLOT: u64 = 0x7f12_3400_0010;
pub(super) const TABLE: u64 = 0x7f45_0000_0030;

/// A thread of the grid, and how many times its warp has synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) thread: u32,
    pub(super) epoch: u32,
}

impl Who {
    /// True if the later thread sees what this one has done.
    fn is_before(self, later: Self) -> bool {
        self.thread == later.thread
            || (self.thread / 32 == later.thread / 32 && self.epoch < later.epoch)
    }
}

/// The accesses to a byte that may be written.
#[derive(Clone, Copy, Default)]
struct Trace {
    writer: Option<Who>,
    /// The last reader, and whether other threads have read the byte since the threads synchronised.
    reader: Option<(Who, bool)>,
    cached: bool,
}

pub(super) struct Memory<'a> {
    parameters: Vec<u8>,
    slot: Vec<u8>,
    grants: &'a [Grant],
    traces: Vec<Trace>,
    table: &'a [u8],
    /// The number of threads per row.
    lanes: u32,
}

impl<'a> Memory<'a> {
    pub(super) fn new(case: &'a Case<'_>, lanes: u32) -> Self {
        let mut slot = case.before.to_vec();
        slot[case.table_at()..][..8].copy_from_slice(&TABLE.to_ne_bytes());
        Self {
            parameters: parameters(&case.launch, SLOT),
            traces: vec![Trace::default(); slot.len()],
            slot,
            grants: case.grants,
            table: case.table.as_bytes(),
            lanes,
        }
    }

    /// A slot that belongs to row 0 as a whole, for programs that are not kernels.
    #[cfg(test)]
    pub(super) fn of(parameters: &[u64], slot: Vec<u8>, grants: &'a [Grant], lanes: u32) -> Self {
        let traces = vec![Trace::default(); slot.len()];
        Self { parameters: parameters.as_bytes().to_vec(), slot, grants, traces, table: &[], lanes }
    }

    /// The number of bytes of the parameters.
    pub(super) fn parameters(&self) -> usize {
        self.parameters.len()
    }

    pub(super) fn slot(&self) -> &[u8] {
        &self.slot
    }

    pub(super) fn load(
        &mut self,
        space: Space,
        who: Who,
        address: u64,
        bytes: usize,
    ) -> Result<u64, String> {
        let mut value = [0; 8];
        let from = if space == Space::Param {
            place(&self.parameters, 0, address, bytes)
                .map(|at| &self.parameters[at..at + bytes])
                .ok_or_else(|| format!("reads parameters at {address}"))?
        } else if let Some(at) = place(self.table, TABLE, address, bytes) {
            &self.table[at..at + bytes]
        } else if let Some(at) = place(&self.slot, SLOT, address, bytes) {
            for index in at..at + bytes {
                self.read(index, who, space == Space::Cached)?;
            }
            &self.slot[at..at + bytes]
        } else {
            return Err(format!("reads {bytes} bytes {}", self.describe(address)));
        };
        value[..bytes].copy_from_slice(from);
        Ok(u64::from_ne_bytes(value))
    }

    pub(super) fn store(
        &mut self,
        who: Who,
        address: u64,
        bytes: usize,
        value: u64,
    ) -> Result<(), String> {
        let at = place(&self.slot, SLOT, address, bytes)
            .ok_or_else(|| format!("writes {bytes} bytes {}", self.describe(address)))?;
        for index in at..at + bytes {
            self.write(index, who)?;
        }
        self.slot[at..at + bytes].copy_from_slice(&value.to_ne_bytes()[..bytes]);
        Ok(())
    }

    fn describe(&self, address: u64) -> String {
        let (slot, table) = (address.wrapping_sub(SLOT), address.wrapping_sub(TABLE));
        let sizes = (self.slot.len(), self.table.len());
        format!(
            "at {address:#x}: {} from the slot ({} bytes), {} from the table ({} bytes)",
            slot.cast_signed(),
            sizes.0,
            table.cast_signed(),
            sizes.1
        )
    }

    fn read(&mut self, at: usize, who: Who, cached: bool) -> Result<(), String> {
        let grant = self.grants[at];
        match grant.owner {
            Owner::All => {}
            Owner::Row(row) if row == who.thread / self.lanes => {}
            owner => return Err(format!("reads byte {at} of the slot, which is of {owner:?}")),
        }
        if !grant.writable {
            return Ok(());
        }
        let trace = &mut self.traces[at];
        if let Some(writer) = trace.writer {
            if cached {
                return Err(format!("reads byte {at}, which is written, through the cache"));
            }
            if !writer.is_before(who) {
                return Err(format!("reads byte {at}, which {writer:?} writes at any time"));
            }
        }
        let others = match trace.reader {
            Some((reader, others)) if reader.epoch == who.epoch => {
                others || reader.thread != who.thread
            }
            _ => false,
        };
        trace.reader = Some((who, others));
        trace.cached |= cached;
        Ok(())
    }

    fn write(&mut self, at: usize, who: Who) -> Result<(), String> {
        let grant = self.grants[at];
        if !grant.writable || grant.owner != Owner::Row(who.thread / self.lanes) {
            return Err(format!("writes byte {at} of the slot, which is of {:?}", grant.owner));
        }
        let trace = &mut self.traces[at];
        if trace.cached {
            return Err(format!("writes byte {at}, which is read through the cache"));
        }
        let unordered = |other: Who| format!("writes byte {at}, which {other:?} uses at any time");
        if let Some(writer) = trace.writer.filter(|writer| !writer.is_before(who)) {
            return Err(unordered(writer));
        }
        if let Some((reader, others)) = trace.reader
            && (!reader.is_before(who) || (others && reader.epoch == who.epoch))
        {
            return Err(unordered(reader));
        }
        trace.writer = Some(who);
        Ok(())
    }
}

/// The offset of a range of bytes in a memory that begins at `base`.
fn place(memory: &[u8], base: u64, address: u64, bytes: usize) -> Option<usize> {
    let at = usize::try_from(address.checked_sub(base)?).ok()?;
    (at <= memory.len() && bytes <= memory.len() - at).then_some(at)
}
