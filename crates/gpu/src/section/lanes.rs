//! The lanes of a section, one a thread.

use std::sync::{Arc, OnceLock};

use millrace_core::{Batch, BiasedGuard, BiasedMutex, Context, PerThread};

use super::{Lane, Section};

/// A lane for each thread that comes, made when it first does. What a thread does with its own lane takes no locks;
/// others can visit it all the same.
#[derive(Default)]
pub struct Lanes {
    lanes: PerThread<OnceLock<Arc<BiasedMutex<Lane>>>>,
}

impl Lanes {
    /// The running thread's lane through `section`, which must always be the same one.
    #[inline]
    pub fn mine(&self, cx: &Context, section: &Arc<Section>) -> BiasedGuard<'_, Lane> {
        self.lanes.mine(cx).get_or_init(|| section.shared_lane()).lock(cx)
    }

    /// The running thread's lane, if it has one.
    #[inline]
    pub fn own(&self, cx: &Context) -> Option<BiasedGuard<'_, Lane>> {
        Some(self.lanes.mine(cx).get()?.lock(cx))
    }

    /// Takes the packets out of every lane, lane by lane, each in order and as they came: for a hot swap, when
    /// no thread runs.
    pub fn take_packets(&self) -> Vec<Batch> {
        let lanes = self.lanes.iter().filter_map(OnceLock::get);
        lanes.flat_map(|lane| lane.visit().take_packets()).collect()
    }
}
