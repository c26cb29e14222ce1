//! The model of a running router: what it is made of and what it has counted, at one moment.
//!
//! Everything that shows a router reads a [`Snapshot`]: the summary, `--json`, the table, the handler `snapshot`.
//! Taking one stops no thread.

mod counts;
mod devices;
mod edges;
mod since;
pub(crate) mod snapshot;
mod take;

use std::sync::{Arc, OnceLock};

use millrace_core::Router;
use millrace_core::router::{GlobalHandlers, HandlerError};

#[cfg(test)]
pub(crate) use counts::Counts;
pub(crate) use devices::{Ledger, Observed};
#[cfg(test)]
pub(crate) use snapshot::{Connection, Device, QueueFill, Totals};
pub(crate) use snapshot::{Element, PortKind, Snapshot, Worker};
use take::Origin;

use crate::watch::Watch;

/// What is read in addition to the router: its devices' traffic, and when it began. Clones read the same.
#[derive(Clone, Default)]
pub(crate) struct Model {
    ledger: Ledger,
    origin: Arc<OnceLock<Origin>>,
    watch: Watch,
}

impl Model {
    /// Where the devices' traffic is recorded.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The model of a router that may run in place of another one: with devices of its own, and the same begin.
    pub(crate) fn of_next_router(&self) -> Self {
        Self { ledger: Ledger::default(), ..self.clone() }
    }

    /// Begins to count now: time, and copies of packet data. Only the first call counts.
    pub(crate) fn begin(&self, router: &Router) {
        self.origin.get_or_init(|| Origin::new(router));
    }

    /// The router at this moment.
    pub(crate) fn snapshot(&self, router: &Router) -> Snapshot {
        let origin = self.origin.get_or_init(|| Origin::new(router));
        Snapshot::take(router, &self.ledger, origin)
    }

    /// The global handlers of the program.
    pub(crate) fn handlers(&self) -> GlobalHandlers {
        let mut handlers = GlobalHandlers::default();
        let model = self.clone();
        handlers.read("snapshot", move |router| {
            let text = serde_json::to_string(&model.snapshot(router));
            text.map_err(|error| HandlerError::Refused(error.to_string()))
        });
        self.watch.offer(&mut handlers);
        handlers
    }
}

#[cfg(test)]
mod tests;
