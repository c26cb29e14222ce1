//! The queues that early-dropping elements watch, and how packets pass through these elements.

use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind;
use millrace_core::element::{Call, Init};
use millrace_core::{Args, Batch, Context, HandlerError, Reason, Refused, Router};

use crate::capability::Storage;
use crate::queueing::storage::{Sources, Storages};

/// The queues that an element watches.
pub(super) struct Watched {
    sources: Sources,
    found: OnceLock<Storages>,
}

impl Watched {
    /// Reads QUEUES.
    pub(super) fn configure(args: &mut Args<'_>, kind: Kind) -> Self {
        Self { sources: Sources::configure(args, kind), found: OnceLock::new() }
    }

    /// Finds the queues; `none` is the error message if there are none.
    pub(super) fn initialize(&self, init: &mut Init<'_>, none: &str) -> Result<(), Refused> {
        let found = self.sources.find(init)?;
        if found.is_empty() {
            return Err(none.into());
        }
        // An element is initialised once.
        let _ = self.found.set(found);
        Ok(())
    }

    /// The number of packets in all of them.
    pub(super) fn size(&self) -> usize {
        self.all().iter().map(|(_, queue)| queue.size()).sum()
    }

    /// The total capacity of all of them.
    fn capacity(&self) -> usize {
        self.all().iter().fold(0, |sum, (_, queue)| sum.saturating_add(queue.capacity()))
    }

    /// Their names, each followed by `end`.
    pub(super) fn names(&self, router: &Router, end: &str) -> String {
        self.all().iter().map(|(id, _)| format!("{}{end}", router.name_of(*id))).collect()
    }

    /// The queues as text of a configuration.
    pub(super) fn config(&self, router: &Router) -> String {
        format!("QUEUES {}", self.names(router, " ")).trim_end().to_owned()
    }

    fn all(&self) -> &[(usize, Arc<dyn Storage>)] {
        self.found.get().map_or(&[], Vec::as_slice)
    }
}

/// An element that drops packets, or sends them to output 1, depending on the queues.
pub(super) trait Dropper {
    /// The queues it watches.
    fn watched(&self) -> &Watched;

    /// Whether to drop the next packet when there are `size` packets in the queues. Counts the drop.
    fn goes(&self, cx: &mut Context, size: usize) -> bool;

    /// Pushes on the packets that are not dropped. A packet that is pushed on counts as queued immediately.
    fn push_on(&self, cx: &mut Context, batch: &mut Batch) {
        let most = self.watched().capacity();
        let mut size = self.watched().size();
        for packet in batch.drain() {
            if self.goes(cx, size) {
                cx.push_or_drop(1, packet, Reason::Limited);
            } else {
                cx.push(0, packet);
                size = size.saturating_add(1).min(most.max(size));
            }
        }
    }

    /// Pulls packets, and replaces those that are dropped.
    fn pull_rest(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        let most = max.min(batch.room());
        let mut one = cx.take_batch();
        while batch.len() < most && cx.pull(0, 1, &mut one) > 0 {
            let Some(packet) = one.pop() else { break };
            match self.goes(cx, self.watched().size()) {
                true => cx.push_or_drop(1, packet, Reason::Limited),
                // There is room.
                false => drop(batch.push(packet)),
            }
        }
        cx.give_batch(one);
    }
}

/// Applies arguments given to a handler; `apply` reads them.
pub(super) fn reread(
    call: &Call<'_>,
    text: &str,
    apply: impl FnOnce(&mut Args<'_>),
) -> Result<(), HandlerError> {
    let mut args = Args::of_text(text, call.scope());
    apply(&mut args);
    match args.has_errors() {
        true => Err(args.messages().into()),
        false => Ok(()),
    }
}

/// The arguments of a configuration, with the one at index `at` replaced.
pub(super) fn with_argument(config: &str, at: usize, argument: &str) -> String {
    let mut arguments: Vec<&str> = config.split(',').map(str::trim).collect();
    if let Some(place) = arguments.get_mut(at) {
        *place = argument;
    }
    arguments.join(", ")
}
