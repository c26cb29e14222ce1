//! Where sections get a device, again when it was lost.

use std::fmt;
use std::sync::Arc;

use millrace_core::Lock;

use crate::{Caps, Device, DeviceError};

/// Opens a device.
pub type Open = Box<dyn Fn() -> Result<Arc<dyn Device>, DeviceError> + Send + Sync>;

/// A device that sections share, opened when one of them needs it, and anew after it was lost.
pub struct Source {
    open: Open,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    device: Option<Arc<dyn Device>>,
    /// How many devices have been opened.
    generation: u64,
}

impl Source {
    /// A source that opens devices so; none is opened yet.
    pub fn new(open: Open) -> Arc<Self> {
        Arc::new(Self { open, state: Lock::default() })
    }

    /// The device and its generation, which is another one after each loss. Opens it when there is none, which takes its time.
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
        Ok((state.generation, device))
    }

    /// The device of this generation is lost: the next one who asks opens it anew.
    pub fn lost(&self, generation: u64) {
        let mut state = self.state.lock();
        if state.generation == generation {
            state.device = None;
        }
    }

    /// What is known of the device, while there is one.
    pub fn caps(&self) -> Option<Caps> {
        self.state.lock().device.as_ref().map(|device| device.caps().clone())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("device", &self.caps()).finish()
    }
}
