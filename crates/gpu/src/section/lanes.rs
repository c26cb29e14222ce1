//! The lanes of a section, one per thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_core::{Batch, BiasedGuard, BiasedMutex, Context, Lock, PerThread};

use super::{Lane, Section};

/// A lane for each thread, created when the thread first needs it. A thread uses its own lane without locks. Other
/// threads can access it too.
#[derive(Default)]
pub struct Lanes {
    lanes: PerThread<OnceLock<Own>>,
    /// True if there are packets for threads that have not taken them yet.
    heirs_awaited: AtomicBool,
    estate: Lock<Vec<Heir>>,
}

/// A thread's lane.
struct Own {
    thread: usize,
    lane: Arc<BiasedMutex<Lane>>,
}

/// A thread that is to take packets of an earlier section.
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

    /// The running thread's lane, if it has one or if packets wait for it.
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

    /// Takes the packets of another section's lanes, for a hot swap, while no thread runs. `heir_of` returns the
    /// thread that gets the packets of a thread. They are processed again, before all packets that arrive later. The
    /// caller must make these threads look after [their own](Self::own) lanes soon.
    pub fn take_over(&self, section: &Arc<Section>, old: &Self, heir_of: impl Fn(usize) -> usize) {
        let mut estate = self.estate.lock();
        for own in old.lanes.iter().filter_map(OnceLock::get) {
            let packets = own.lane.visit().take_packets();
            if !packets.is_empty() {
                let thread = heir_of(own.thread);
                estate.push(Heir { thread, section: section.clone(), packets });
            }
        }
        // Packets that no thread has taken yet are passed on.
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

    /// The number of packets for threads that have not taken them yet.
    pub fn awaiting(&self) -> usize {
        let estate = self.estate.lock();
        estate.iter().flat_map(|heir| &heir.packets).map(|batch| batch.len()).sum()
    }
}
