//! Elements that store packets, as seen by those that check how many are stored: RED, PI, Unqueue2.

use std::sync::Arc;

use millrace_core::args::{Kind, Raw};
use millrace_core::element::Init;
use millrace_core::{Args, Refused, Router};

use super::queues::front_drop_queue::FrontDropQueue;
use super::queues::mixed_queue::MixedQueue;
use super::queues::ms_queue::MsQueue;
use super::queues::notifier_queue::NotifierQueue;
use super::queues::queue::Queue;
use super::queues::queue::{Discipline, Kept};
use super::queues::quick_note_queue::QuickNoteQueue;
use super::queues::simple_queue::SimpleQueue;
use super::queues::thread_safe_queue::ThreadSafeQueue;
use crate::queueing::unqueues::link_unqueue::LinkUnqueue;

/// An element that stores packets.
pub(crate) trait Storage: Send + Sync {
    /// How many packets it stores.
    fn size(&self) -> usize;
    /// The maximum number of packets.
    fn capacity(&self) -> usize;
}

impl<D: Discipline> Storage for Kept<D> {
    fn size(&self) -> usize {
        self.store().len()
    }

    fn capacity(&self) -> usize {
        self.store().capacity()
    }
}

/// Element `id`, if it is a storage.
fn storage(router: &Router, id: usize) -> Option<Arc<dyn Storage>> {
    macro_rules! first_of {
        ($($class:ty),*) => {
            $(if let Some(element) = router.element::<$class>(id) {
                return Some(element);
            })*
        };
    }
    first_of!(
        Queue,
        SimpleQueue,
        NotifierQueue,
        QuickNoteQueue,
        ThreadSafeQueue,
        MsQueue,
        FrontDropQueue,
        MixedQueue,
        LinkUnqueue
    );
    None
}

/// Which storages an element uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Names, from the argument QUEUES; `None` means the nearest ones.
    names: Option<Vec<String>>,
}

/// Storages, each with the index of its element.
pub(crate) type Storages = Vec<(usize, Arc<dyn Storage>)>;

impl Sources {
    /// Reads QUEUES; `kind` says whether it can be positional.
    pub(crate) fn configure(args: &mut Args<'_>, kind: Kind) -> Self {
        let text: Option<Raw> = args.read("QUEUES", kind);
        let words = |Raw(text): Raw| text.split_ascii_whitespace().map(str::to_owned).collect();
        Self { names: text.map(words) }
    }

    /// The named storages, or the nearest ones: downstream if packets are pushed on, otherwise upstream.
    pub(crate) fn find(&self, init: &Init<'_>) -> Result<Storages, Refused> {
        let router = init.router();
        let Some(names) = &self.names else {
            let is_end = |id| storage(router, id).is_some();
            let ids = match init.is_pull_output(0) {
                true => init.nearest_upstream(0, is_end),
                false => init.nearest_downstream(0, is_end),
            };
            return Ok(ids.into_iter().filter_map(|id| Some((id, storage(router, id)?))).collect());
        };
        let named = names.iter().map(|name| {
            let id = router
                .resolve(init.id(), name)
                .ok_or_else(|| Refused(format!("no element named ‘{name}’")))?;
            let is_none = || Refused(format!("‘{name}’ is not a Storage element"));
            Ok((id, storage(router, id).ok_or_else(is_none)?))
        });
        named.collect()
    }
}
