//! Tables in the simulated device's memory.

use std::sync::atomic::{AtomicU8, Ordering};

use millrace_core::Lock;

use super::arena::Memory;
use crate::device::{DeviceError, DeviceId, TableMemory};

const LOADING: u8 = 0;
pub(super) const RESIDENT: u8 = 1;
pub(super) const NEVER: u8 = 2;

/// A table in the simulated device's memory.
pub(super) struct SimTable {
    pub(super) device: DeviceId,
    pub(super) address: u64,
    pub(super) memory: Lock<Memory>,
    pub(super) state: AtomicU8,
}

impl SimTable {
    pub(super) fn new(device: DeviceId, memory: Memory) -> Self {
        let (address, memory) = (memory.address(), Lock::new(memory));
        Self { device, address, memory, state: AtomicU8::new(LOADING) }
    }
}

impl TableMemory for SimTable {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn address(&self) -> u64 {
        self.address
    }

    fn is_resident(&self) -> Result<bool, DeviceError> {
        match self.state.load(Ordering::Acquire) {
            LOADING => Ok(false),
            RESIDENT => Ok(true),
            _ => Err(lost()),
        }
    }
}

pub(super) fn lost() -> DeviceError {
    DeviceError::Lost("injected".to_owned())
}
