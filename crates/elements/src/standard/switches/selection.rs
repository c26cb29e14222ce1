//! The port that a switch has selected: argument and handlers.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::Setup;

/// One of a number of ports, or none.
pub(in crate::standard) struct Selection {
    /// The port; -1 for none.
    port: AtomicI32,
    ports: usize,
}

impl Selection {
    /// Reads the argument with this name: port 0 unless given. A number that is no port's stands
    /// for none.
    pub(in crate::standard) fn configure(setup: &mut Setup<'_>, name: &str, ports: usize) -> Self {
        let port: i32 = setup.args.positional(name, 0);
        let selection = Self { port: AtomicI32::new(-1), ports };
        selection.set(port);
        selection
    }

    /// The port; -1 for none.
    pub(in crate::standard) fn number(&self) -> i32 {
        self.port.load(Relaxed)
    }

    /// The port, if there is one.
    pub(in crate::standard) fn port(&self) -> Option<usize> {
        usize::try_from(self.number()).ok()
    }

    /// Selects a port, or none when there is none with this number.
    pub(in crate::standard) fn set(&self, port: i32) {
        let exists = usize::try_from(port).is_ok_and(|port| port < self.ports);
        self.port.store(if exists { port } else { -1 }, Relaxed);
    }
}
