//! The lanes of a section, one a thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_core::{Batch, BiasedGuard, BiasedMutex, Context, Lock, PerThread};

use super::{Lane, Section};

/// A lane for each thread that comes, made when it first does. What a thread does with its own lane takes no locks;
/// others can visit it all the same.
#[derive(Default)]
pub struct Lanes {
    lanes: PerThread<OnceLock<Own>>,
    /// Whether there are heirs who have not come yet.
    heirs_awaited: AtomicBool,
    estate: Lock<Vec<Heir>>,
}

/// A thread's lane.
struct Own {
    thread: usize,
    lane: Arc<BiasedMutex<Lane>>,
}

/// A thread to which packets of a section before this one belong.
struct Heir {
    thread: usize,
    section: Arc<Section>,
    packets: Vec<Batch>,
}

impl Lanes {
    /// The running thread's lane through `section`, which must always be the same one.
    #[inline]
    pub fn mine(&self, cx: &Context, section: &Arc<Section>) -> BiasedGuard<'_, Lane> {
        let own = self
            .lanes
            .mine(cx)
            .get_or_init(|| Own { thread: cx.thread(), lane: section.shared_lane() });
        let mut lane = own.lane.lock(cx);
        if self.heirs_awaited.load(Ordering::Acquire) {
            self.bequeath(own.thread, &mut lane);
        }
        lane
    }

    /// The running thread's lane, if it has one, or packets are there for it.
    #[inline]
    pub fn own(&self, cx: &Context) -> Option<BiasedGuard<'_, Lane>> {
        if self.heirs_awaited.load(Ordering::Acquire) {
            let section = self
                .estate
                .lock()
                .iter()
                .find_map(|heir| (heir.thread == cx.thread()).then(|| heir.section.clone()));
            if let Some(section) = section {
                return Some(self.mine(cx, &section));
            }
        }
        Some(self.lanes.mine(cx).get()?.lane.lock(cx))
    }

    /// Takes over the packets that another section's lanes hold: for a hot swap, when no thread runs. `heir_of` says to which
    /// thread's lane those of a thread go. They are treated anew, before all that comes. Whoever calls has these threads look
    /// after [their own](Self::own) lanes soon.
    pub fn take_over(&self, section: &Arc<Section>, old: &Self, heir_of: impl Fn(usize) -> usize) {
        let mut estate = self.estate.lock();
        for own in old.lanes.iter().filter_map(OnceLock::get) {
            let packets = own.lane.visit().take_packets();
            if !packets.is_empty() {
                let thread = heir_of(own.thread);
                estate.push(Heir { thread, section: section.clone(), packets });
            }
        }
        // What nobody has come for yet goes on.
        for heir in old.estate.lock().drain(..) {
            let thread = heir_of(heir.thread);
            estate.push(Heir { thread, section: section.clone(), ..heir });
        }
        self.heirs_awaited.store(!estate.is_empty(), Ordering::Release);
    }

    #[cold]
    fn bequeath(&self, thread: usize, lane: &mut Lane) {
        let mut estate = self.estate.lock();
        for heir in estate.extract_if(.., |heir| heir.thread == thread) {
            lane.inherit(heir.packets);
        }
        self.heirs_awaited.store(!estate.is_empty(), Ordering::Release);
    }

    /// Packets that are there for threads that have not come yet.
    pub fn awaiting(&self) -> usize {
        let estate = self.estate.lock();
        estate.iter().flat_map(|heir| &heir.packets).map(|batch| batch.len()).sum()
    }
}
