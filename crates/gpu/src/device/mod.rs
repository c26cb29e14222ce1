//! The interface to a device: what a section needs from a GPU or from a substitute.
//!
//! A [`Device`] is shared by all threads. Each thread submits batches through its own [`DeviceLane`], without locks.
//! Only opening, loading and quiescing block.
//!
//! # Failures
//!
//! * A batch fails ([`DeviceError::Step`]): its slot becomes free when no part of the batch is in flight any more.
//!   Other batches continue.
//! * A batch does not end: the owner of the lane decides when to give it up. The slot belongs to the device until
//!   [`poll`](DeviceLane::poll) returns another result. The owner drops the lane if it does not need the other
//!   batches.
//! * The device is lost ([`DeviceError::Lost`]): every batch in flight fails, and every later call. The users drop
//!   their lanes and tables, and open the device again. This succeeds when all of them are dropped and the device
//!   works.
//!
//! A lane can be dropped at any time, which may take some 20 ms. Memory that the device may still write to is kept
//! until it is certain that the device does not write to it.

pub(crate) mod slot;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan::Plan;

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The name of the backend: `cuda`, `host` or `simulator`.
    pub backend: &'static str,
    /// The device's own name, and why it was chosen, for the message at the start.
    pub name: String,
    /// Bytes of device memory.
    pub memory: u64,
    /// True if [`DeviceLane::submit`] returns before the work is done.
    pub asynchronous: bool,
}

/// An error of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is not enough memory on the device or on the host.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A step failed. The device can process other batches.
    #[error("{0}")]
    Step(String),
    /// The device does not work any more, until it is opened again.
    #[error("the device is lost: {0}")]
    Lost(String),
    /// The device lacks something that the plan needs.
    #[error("not possible on this device: {0}")]
    Unsupported(String),
}

impl DeviceError {
    /// True if the device must be opened again.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// Why there is no device: a sentence without a full stop, for the message at the start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WhyNot(pub String);

impl From<WhyNot> for DeviceError {
    fn from(why: WhyNot) -> Self {
        Self::Lost(why.0)
    }
}

/// Identifies an opened device within the process, so that a table is used only on its own device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

impl DeviceId {
    /// A new, unique identifier.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for DeviceId {
    fn default() -> Self {
        Self::new()
    }
}

/// A GPU or a substitute.
pub trait Device: Send + Sync {
    /// Its properties.
    fn caps(&self) -> &Caps;

    /// Its identifier, which changes when the device is opened again.
    fn id(&self) -> DeviceId;

    /// True if it is lost: every call fails, now and later.
    fn is_lost(&self) -> bool;

    /// Begins to load a table, which can be used in plans when it [is resident](Table::is_resident). The copy uses a
    /// stream of its own, so batches in flight continue. The call takes as long as a copy in memory, so it is for
    /// control threads.
    ///
    /// # Errors
    /// There is not enough memory, or the device is lost.
    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError>;

    /// As [`load_table`](Self::load_table), for a table that differs from another one in some words. A device with
    /// its own memory copies the old table there, and receives only the changed words. Keep `old` until the new table
    /// is resident.
    ///
    /// # Errors
    /// As [`load_table`](Self::load_table).
    fn load_changed(&self, words: &Arc<Vec<u32>>, old: Old<'_>) -> Result<Table, DeviceError> {
        let _ = old;
        self.load_table(words)
    }

    /// Prepares to run a plan from one thread, with at most `slots` batches in flight. It takes milliseconds, or
    /// tenths of a second if a GPU's kernels must first be compiled.
    ///
    /// # Errors
    /// There is not enough memory, a kernel is missing, or the device is lost.
    fn open_lane(&self, plan: &Arc<Plan>, slots: usize)
    -> Result<Box<dyn DeviceLane>, DeviceError>;
}

/// The table from which another one is made.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    /// The table, which must be resident on the same device.
    pub table: &'a Table,
    /// Its length in words, at most that of the new table.
    pub words: usize,
    /// The ranges in which the new table may differ, including all words after the old table's end.
    pub changed: &'a [Range<usize>],
}

/// A table on a device. Clones refer to the same table, which is freed with the last one.
#[derive(Clone)]
pub struct Table(Arc<dyn TableMemory>);

/// The backend's part of a table.
pub trait TableMemory: Send + Sync {
    /// The device that it is on.
    fn device(&self) -> DeviceId;
    /// Its address, for kernels.
    fn address(&self) -> u64;
    /// True if all of it has arrived.
    ///
    /// # Errors
    /// It could not be loaded, and never will arrive.
    fn is_resident(&self) -> Result<bool, DeviceError>;
}

impl Table {
    /// Wraps a backend's table.
    pub fn new(memory: Arc<dyn TableMemory>) -> Self {
        Self(memory)
    }

    /// The device that it is on.
    pub fn device(&self) -> DeviceId {
        self.0.device()
    }

    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// True if all of it has arrived.
    ///
    /// # Errors
    /// It could not be loaded.
    pub fn is_resident(&self) -> Result<bool, DeviceError> {
        self.0.is_resident()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:#x})", self.address())
    }
}

/// The index of a slot in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub usize);

/// A batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its slot.
    pub slot: SlotId,
    /// Its number, which increases by one with each submission of the lane.
    pub sequence: u32,
}

/// The state of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It is in flight.
    Pending,
    /// It is done: the slot contains the results.
    Done,
    /// It failed: the contents of the slot are invalid.
    Failed(DeviceError),
}

/// A thread's access to a device, for one plan.
pub trait DeviceLane: Send {
    /// The number of slots.
    fn slots(&self) -> usize;

    /// The host's memory of a slot, [`Plan::slot_bytes`] long. `None` while a batch is in flight in it, or after a
    /// failure, as long as the device might write to it. The first bytes, the size of a
    /// [`Header`](crate::kernel::Header), belong to the lane.
    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]>;

    /// Submits the batch in a slot: `rows` packets with `payload` bytes of packed payload. The lane writes the slot's
    /// header. `tables[i]` is table number `i` of the plan's launches ([`Launch::table`](crate::kernel::Launch)). All
    /// tables must be resident on this device; they are kept until the batch is done.
    ///
    /// # Errors
    /// The batch was not submitted. The slot is unchanged, unless the device is lost.
    fn submit(
        &mut self,
        slot: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError>;

    /// The state of a batch. It stays the same after the batch has ended, until its slot is submitted again. Normally
    /// it reads a word of memory, without a call of the driver.
    fn poll(&mut self, ticket: Ticket) -> Poll;

    /// Runs the kernels of the batch in each slot repeatedly and without copies, all slots at the same time, to
    /// measure the kernels alone. Each slot runs `times` times. Returns the time by the host's clock, without
    /// preparations. Nothing else can be submitted meanwhile. `rows`, `payload` and `tables` are as in
    /// [`submit`](Self::submit), for every slot.
    ///
    /// # Errors
    /// As `submit`; and [`Unsupported`](DeviceError::Unsupported) if the backend cannot run kernels alone.
    fn time_kernels(
        &mut self,
        rows: usize,
        payload: usize,
        tables: &[Table],
        times: u32,
    ) -> Result<Duration, DeviceError> {
        let _ = (rows, payload, tables, times);
        Err(DeviceError::Unsupported("kernels are not timed by themselves".to_owned()))
    }

    /// Waits until no batch is in flight, for at most `most`. If it returns true, every slot is available again, and
    /// the result of `poll` is final. If it returns false, the device may still write to slots. For a lost device
    /// with batches in flight it always returns false.
    fn quiesce(&mut self, most: Duration) -> bool;
}
