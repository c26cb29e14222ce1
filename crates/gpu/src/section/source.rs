//! The source of a section's device, which opens it again after a loss.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_core::Lock;

use crate::{Caps, Device, DeviceError};

/// Opens a device.
pub type Open = Box<dyn Fn() -> Result<Arc<dyn Device>, DeviceError> + Send + Sync>;

/// A device that sections share. It is opened when one of them needs it, and again after it was lost.
pub struct Source {
    open: Open,
    state: Lock<State>,
    /// The generation of the present device; 0 if there is none.
    present: AtomicU64,
}

#[derive(Default)]
struct State {
    device: Option<Arc<dyn Device>>,
    /// The number of devices that were opened.
    generation: u64,
}

impl Source {
    /// A source that opens devices with `open`. None is opened yet.
    pub fn new(open: Open) -> Arc<Self> {
        Arc::new(Self { open, state: Lock::default(), present: AtomicU64::new(0) })
    }

    /// The device and its generation, which changes after each loss. Opens the device if there is none, which takes
    /// time.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn device(&self) -> Result<(u64, Arc<dyn Device>), DeviceError> {
        let mut state = self.state.lock();
        if let Some(device) = &state.device {
            return Ok((state.generation, device.clone()));
        }
        let device = (self.open)()?;
        state.device = Some(device.clone());
        state.generation += 1;
        self.present.store(state.generation, Ordering::Release);
        Ok((state.generation, device))
    }

    /// Notes that the device of this generation is lost, so that the next call opens it again. Returns true for the
    /// first such call.
    pub fn lost(&self, generation: u64) -> bool {
        let mut state = self.state.lock();
        let news = state.generation == generation && state.device.is_some();
        if news {
            self.present.store(0, Ordering::Release);
            state.device = None;
        }
        news
    }

    /// The device and its generation, if it is open.
    pub(super) fn opened(&self) -> Option<(u64, Arc<dyn Device>)> {
        let state = self.state.lock();
        Some((state.generation, state.device.clone()?))
    }

    /// The generation of the present device; 0 if there is none.
    #[inline]
    pub(super) fn present(&self) -> u64 {
        self.present.load(Ordering::Acquire)
    }

    /// The properties of the device, if there is one.
    pub fn caps(&self) -> Option<Caps> {
        self.state.lock().device.as_ref().map(|device| device.caps().clone())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("device", &self.caps()).finish()
    }
}
