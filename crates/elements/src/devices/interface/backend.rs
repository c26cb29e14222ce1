//! The source of devices: the program's backend, or the machine's own interfaces.

use std::ops::Deref;
use std::sync::Arc;

use millrace_io::{Backend, Devices, Machine};

/// A backend shared with other elements, or the machine's own.
pub(crate) enum Source {
    Given(Arc<Devices>),
    Own(Machine),
}

impl Source {
    /// The given backend, or the machine's if none is given.
    pub(crate) fn of(given: Option<Arc<Devices>>) -> Self {
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
