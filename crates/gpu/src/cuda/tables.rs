//! Tables in a context's memory.
//!
//! They belong to the context, and handles only name them: a handle that is kept too long must not prevent a lost
//! device from being reopened. Freeing waits for the device. So a table that is dropped, perhaps by a packet thread,
//! is freed by the next call that opens a lane or loads a table.

use std::collections::HashMap;
use std::mem;
use std::ptr;
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::{Context, DeviceMemory, Stream};
use crate::device::{DeviceError, Old};

#[derive(Default)]
pub(super) struct Tables {
    /// Tables by address.
    here: HashMap<sys::CUdeviceptr, Arrival>,
    /// Tables that are no longer used.
    left: Vec<(sys::CUdeviceptr, Arrival)>,
}

/// The upload of a table.
struct Arrival {
    /// Marks the end of the upload; `None` after it has ended.
    event: Option<Event>,
    /// The words that are copied, until the end of the upload.
    _words: Option<Arc<Vec<u32>>>,
}

/// A mark in a stream. Its context destroys it.
struct Event(sys::CUevent);

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Event {}

impl Context {
    /// Begins to load a table, and returns its address. If an old table is given, only the changed words are
    /// uploaded, and the others are copied from it.
    pub(super) fn load(
        self: &Arc<Self>,
        uploads: &Stream,
        words: &Arc<Vec<u32>>,
        old: Option<Old<'_>>,
    ) -> Result<sys::CUdeviceptr, DeviceError> {
        let memory = DeviceMemory::new(self, words.len() * 4)?;
        let mut event = None;
        if !words.is_empty() {
            let mark = copy(uploads, &memory, words, old).and_then(|()| self.mark(uploads));
            if mark.is_err() {
                // The copies would use memory that is freed by this return.
                let _ = uploads.synchronize();
            }
            event = Some(mark?);
        }
        let address = memory.leave();
        let arrival = Arrival { event, _words: Some(words.clone()) };
        self.tables().here.insert(address, arrival);
        Ok(address)
    }

    fn mark(&self, stream: &Stream) -> Result<Event, DeviceError> {
        let mut raw = ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes a handle.
        self.call("cuEventCreate", || unsafe { sys::cuEventCreate(&raw mut raw, flags) })?;
        let event = Event(raw);
        // SAFETY: both belong to this context.
        let recorded =
            self.call("cuEventRecord", || unsafe { sys::cuEventRecord(raw, stream.raw()) });
        match recorded {
            Ok(()) => Ok(event),
            Err(error) => {
                self.destroy(event);
                Err(error)
            }
        }
    }

    /// True if all of a table has arrived.
    pub(super) fn has_arrived(&self, address: sys::CUdeviceptr) -> Result<bool, DeviceError> {
        let mut tables = self.tables();
        let Some(arrival) = tables.here.get_mut(&address) else {
            return Err(DeviceError::Step("there is no such table".to_owned()));
        };
        self.look(arrival)
    }

    fn look(&self, arrival: &mut Arrival) -> Result<bool, DeviceError> {
        let Some(event) = &arrival.event else { return Ok(true) };
        // SAFETY: an event of this context.
        if !self.ask("cuEventQuery", || unsafe { sys::cuEventQuery(event.0) })? {
            return Ok(false);
        }
        if let Some(event) = arrival.event.take() {
            self.destroy(event);
        }
        arrival._words = None;
        Ok(true)
    }

    fn destroy(&self, event: Event) {
        // SAFETY: created once, destroyed once.
        self.free("cuEventDestroy", || unsafe { sys::cuEventDestroy_v2(event.0) });
    }

    /// Notes that a table is no longer used.
    pub(super) fn leave_table(&self, address: sys::CUdeviceptr) {
        let mut tables = self.tables();
        if let Some(arrival) = tables.here.remove(&address) {
            tables.left.push((address, arrival));
        }
    }

    /// Frees tables that are no longer used and whose upload has ended.
    pub(super) fn tidy_tables(&self) {
        let left = mem::take(&mut self.tables().left);
        for (address, mut arrival) in left {
            if self.look(&mut arrival).unwrap_or(false) {
                // SAFETY: allocated in this context; no batch under way uses it, since batches keep their tables.
                self.free("cuMemFree", || unsafe { sys::cuMemFree_v2(address) });
            } else {
                self.tables().left.push((address, arrival));
            }
        }
    }

    /// Frees all tables. No work but uploads can be in flight, and these have ended because their stream is gone.
    pub(super) fn free_tables(&self) {
        let tables = mem::take(&mut *self.tables());
        for (address, arrival) in tables.here.into_iter().chain(tables.left) {
            if let Some(event) = arrival.event {
                self.destroy(event);
            }
            // SAFETY: allocated in this context, in which nothing is under way.
            self.free("cuMemFree", || unsafe { sys::cuMemFree_v2(address) });
        }
    }
}

/// Begins to copy a table to the device.
fn copy(
    uploads: &Stream,
    memory: &DeviceMemory,
    words: &[u32],
    old: Option<Old<'_>>,
) -> Result<(), DeviceError> {
    let all = 0..words.len();
    let mut changed = slice::from_ref(&all);
    if let Some(old) = old {
        let bytes = 4 * old.words.min(words.len());
        // SAFETY: nobody writes to a table that is there. It is kept until this one has arrived; where its owner gives up
        // before, it is freed as all memory is: when the device has done what was under way.
        unsafe { uploads.copy_within(memory.address(), old.table.address(), bytes) }?;
        changed = old.changed;
    }
    for range in changed {
        let part = words.get(range.clone()).unwrap_or_default();
        let to = memory.address() + 4 * range.start as u64;
        // SAFETY: nobody writes to these words; both ends are kept until the last copy's end was seen.
        unsafe { uploads.copy_in(to, part.as_ptr().cast(), 4 * part.len()) }?;
    }
    Ok(())
}
