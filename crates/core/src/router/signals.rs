//! System signals, and the elements that run when one arrives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::Lock;

/// Signal numbers are below this.
const SIGNALS: usize = 32;

/// What happens on a signal that no element listens to.
type Unheard = Box<dyn Fn(i32) + Send + Sync>;

/// Which elements listen to which signals, and which signals have arrived. The program sets the marks when
/// signals arrive, and wakes the router.
pub struct Signals {
    /// Whether any signal has arrived.
    any: Arc<AtomicBool>,
    marks: [Arc<AtomicBool>; SIGNALS],
    listeners: Lock<Vec<(i32, usize)>>,
    unheard: Lock<Option<Unheard>>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            any: Arc::default(),
            marks: std::array::from_fn(|_| Arc::default()),
            listeners: Lock::default(),
            unheard: Lock::default(),
        }
    }
}

impl Signals {
    /// Writes to an element's handler `run` when a signal arrives, once.
    pub fn listen(&self, signal: i32, element: usize) {
        let mut listeners = self.listeners();
        if !listeners.contains(&(signal, element)) {
            listeners.push((signal, element));
        }
    }

    /// The signals that elements listen to.
    pub fn wanted(&self) -> Vec<i32> {
        let mut wanted: Vec<i32> = self.listeners().iter().map(|&(signal, _)| signal).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The marks to set when a signal arrives: its own first, then the one for any signal.
    pub fn marks(&self, signal: i32) -> Option<[Arc<AtomicBool>; 2]> {
        let mark = self.marks.get(usize::try_from(signal).ok()?)?;
        Some([mark.clone(), self.any.clone()])
    }

    /// Sets what to do when a signal arrives that no element listens to any more.
    pub fn when_unheard(&self, act: impl Fn(i32) + Send + Sync + 'static) {
        *self.unheard.lock() = Some(Box::new(act));
    }

    #[inline]
    pub(crate) fn have_come(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The signals that have arrived, each with the elements that listened.
    pub(crate) fn take(&self) -> Vec<(i32, Vec<usize>)> {
        self.any.store(false, Ordering::SeqCst);
        let mut come = Vec::new();
        for (mark, signal) in self.marks.iter().zip(0..) {
            if mark.swap(false, Ordering::SeqCst) {
                let all = &mut *self.listeners();
                let elements = all.extract_if(.., |one| one.0 == signal).map(|one| one.1);
                come.push((signal, elements.collect()));
            }
        }
        come
    }

    pub(crate) fn nobody_heard(&self, signal: i32) {
        if let Some(act) = &*self.unheard.lock() {
            act(signal);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<(i32, usize)>> {
        self.listeners.lock()
    }
}
