//! The device seam: what a section needs of a GPU, or of what stands for one.
//!
//! A [`Device`] is shared by all threads; each thread submits through a [`DeviceLane`] of its own, without locks. Nothing here
//! blocks but opening, loading and quiescing.
//!
//! # When it fails
//! * A batch fails ([`DeviceError::Step`]): its slot comes back when nothing of it is under way any more; others go on.
//! * A batch does not come back: the user of the lane decides when to give it up. The slot stays the device's until
//!   [`poll`](DeviceLane::poll) says otherwise; the user drops the lane when it has no use for the rest of it.
//! * The device is lost ([`DeviceError::Lost`]): every batch under way fails, and every later call. Its users drop their lanes
//!   and tables, and open it anew, which succeeds when all of it is let go and it works again.
//!
//! A lane can be dropped at any time, which may take some 20 ms: memory that the device may still write to is kept until it is
//! sure that it does not.

pub(crate) mod slot;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan::Plan;

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Which backend it is: `cuda`, `host`, `simulator`.
    pub backend: &'static str,
    /// The device's own name, and why it was taken: for the start-up line.
    pub name: String,
    /// Bytes of device memory.
    pub memory: u64,
    /// Whether [`DeviceLane::submit`] comes back before the work is done.
    pub asynchronous: bool,
}

/// What went wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is not enough memory on the device or for it.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A step failed; the device may go on with other batches.
    #[error("{0}")]
    Step(String),
    /// The device is gone, or in a state that only opening it anew ends.
    #[error("the device is lost: {0}")]
    Lost(String),
    /// The device does not know something that the plan needs.
    #[error("not possible on this device: {0}")]
    Unsupported(String),
}

impl DeviceError {
    /// Whether only opening the device anew helps.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// Why there is no device: a sentence without its full stop, for the start-up line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WhyNot(pub String);

impl From<WhyNot> for DeviceError {
    fn from(why: WhyNot) -> Self {
        Self::Lost(why.0)
    }
}

/// Tells an opened device from all others of the process, so that no table is used on another than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

impl DeviceId {
    /// One that nothing else has.
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

/// A GPU, or what stands for one.
pub trait Device: Send + Sync {
    /// What is known of it.
    fn caps(&self) -> &Caps;

    /// Which one it is; another one when it was opened anew.
    fn id(&self) -> DeviceId;

    /// Whether it is lost: whatever is asked of it fails, now and later.
    fn is_lost(&self) -> bool;

    /// Begins to load a table; it can be used in plans when it [is resident](Table::is_resident). On a stream of its
    /// own: batches in flight go on. Takes as long as a copy in memory: for control threads.
    ///
    /// # Errors
    /// There is no room, or the device is lost.
    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError>;

    /// As [`load_table`](Self::load_table), of a table that is another one but for some words: a device with memory of its
    /// own copies the other one there and gets these words alone. `old` is to be kept until the new one is resident.
    ///
    /// # Errors
    /// As [`load_table`](Self::load_table).
    fn load_changed(&self, words: &Arc<Vec<u32>>, old: Old<'_>) -> Result<Table, DeviceError> {
        let _ = old;
        self.load_table(words)
    }

    /// Makes ready to run a plan from one thread, with `slots` batches under way at most. Takes milliseconds, the first time
    /// on a GPU as long as compiling kernels (tenths of a second).
    ///
    /// # Errors
    /// There is no room, a kernel is not to be had, or the device is lost.
    fn open_lane(&self, plan: &Arc<Plan>, slots: usize)
    -> Result<Box<dyn DeviceLane>, DeviceError>;
}

/// A table that another one is made of.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    /// It is resident on the same device.
    pub table: &'a Table,
    /// How long it is; at most as long as the new one.
    pub words: usize,
    /// Where the new one may differ, all words behind the old one's end among them.
    pub changed: &'a [Range<usize>],
}

/// A table on a device, freed with the last clone. Clones name the same table.
#[derive(Clone)]
pub struct Table(Arc<dyn TableMemory>);

/// What a backend keeps of a table.
pub trait TableMemory: Send + Sync {
    /// On which device it is.
    fn device(&self) -> DeviceId;
    /// Where it is, for kernels.
    fn address(&self) -> u64;
    /// Whether all of it has arrived; an error when it never will.
    ///
    /// # Errors
    /// It could not be loaded.
    fn is_resident(&self) -> Result<bool, DeviceError>;
}

impl Table {
    /// A backend's table.
    pub fn new(memory: Arc<dyn TableMemory>) -> Self {
        Self(memory)
    }

    /// On which device it is.
    pub fn device(&self) -> DeviceId {
        self.0.device()
    }

    /// Where it is on the device.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// Whether all of it has arrived.
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

/// Which of a lane's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub usize);

/// A batch under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its slot.
    pub slot: SlotId,
    /// Its number: grows by one with each submission of the lane.
    pub sequence: u32,
}

/// What became of a batch so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It is under way.
    Pending,
    /// It is done: results lie in the slot.
    Done,
    /// It failed: what lies in the slot is worth nothing.
    Failed(DeviceError),
}

/// One thread's way to a device, for one plan.
pub trait DeviceLane: Send {
    /// How many slots there are.
    fn slots(&self) -> usize;

    /// The host's memory of a slot, [`Plan::slot_bytes`] long; none while a batch is under way in it, or was when the
    /// device failed and it is not sure that it writes no more. The first bytes, as long as a
    /// [`Header`](crate::kernel::Header), are the lane's.
    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]>;

    /// Submits the batch that lies in a slot: `rows` packets with `payload` bytes of packed payload. The lane writes the
    /// slot's header. `tables[i]` is table number `i` of the plan's launches ([`Launch::table`](crate::kernel::Launch)), all
    /// resident on this device; they are kept until the batch is done.
    ///
    /// # Errors
    /// It was not submitted: the slot is as it was, unless the device is lost.
    fn submit(
        &mut self,
        slot: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError>;

    /// What became of a batch: the same answer until its slot is submitted again. A read of a word of memory while all is well,
    /// no call of a driver.
    fn poll(&mut self, ticket: Ticket) -> Poll;

    /// Runs the kernels of the batch that lies in each slot, over and over and without copies, those of all slots at once: for
    /// measurements of the kernels by themselves. Each slot's run `times` times one behind the other. Gives how long that
    /// takes by the host's clock, preparations left out; meanwhile nothing else can be submitted. `rows`, `payload` and
    /// `tables` as in [`submit`](Self::submit), for every slot.
    ///
    /// # Errors
    /// As `submit`, and [`Unsupported`](DeviceError::Unsupported) where kernels do not run by themselves.
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

    /// Waits until nothing is under way any more, at most so long. False when the device may still write to slots; when true,
    /// every slot is given out again, and what `poll` says is final. Of a lost device with batches under way it is never sure.
    fn quiesce(&mut self, most: Duration) -> bool;
}
