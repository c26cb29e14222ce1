//! Where devices come from: the program's backend, or else the machine's interfaces.

use std::ops::Deref;
use std::sync::Arc;

use millrace_io::{Backend, Devices, Machine};

/// A backend that is shared with others or is the machine's.
pub(super) enum Source {
    Given(Arc<Devices>),
    Own(Machine),
}

impl Source {
    /// The given backend, or the machine's when none is.
    pub(super) fn of(given: Option<Arc<Devices>>) -> Self {
        given.map_or(Self::Own(Machine), Self::Given)
    }
}

impl Deref for Source {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Given(devices) => &*devices.0,
            Self::Own(machine) => machine,
        }
    }
}
