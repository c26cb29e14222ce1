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
    listeners: Lock<Vec<Listener>>,
    unheard: Lock<Option<Unheard>>,
}

/// An element that listens to a signal.
struct Listener {
    signal: i32,
    element: usize,
    /// Whether the signal has arrived and the element treats it.
    treats: bool,
    /// Whether the signal has arrived again since.
    again: bool,
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
    /// Writes to an element's handler `run` when the signal arrives. From then on the element treats it, until it
    /// listens again or [forgets](Self::forget) it; the signal waits in between. Returns whether it has waited: wake
    /// the router then.
    pub fn listen(&self, signal: i32, element: usize) -> bool {
        let again = self.forget(signal, element);
        self.listeners().push(Listener { signal, element, treats: false, again: false });
        again
    }

    /// The element listens to the signal no longer. Returns whether the signal has waited: wake the router then, which
    /// finds other listeners or none.
    pub fn forget(&self, signal: i32, element: usize) -> bool {
        let all = &mut *self.listeners();
        let own = |one: &mut Listener| one.signal == signal && one.element == element;
        let again = all.extract_if(.., own).any(|one| one.again);
        if again && let Some([mark, any]) = self.marks(signal) {
            mark.store(true, Ordering::SeqCst);
            any.store(true, Ordering::SeqCst);
        }
        again
    }

    /// The signals that elements listen to.
    pub fn wanted(&self) -> Vec<i32> {
        let mut wanted: Vec<i32> = self.listeners().iter().map(|one| one.signal).collect();
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

    /// The signals that have arrived, each with the elements that are to treat it now. Signals that an element still
    /// treats are not among them.
    pub(crate) fn take(&self) -> Vec<(i32, Vec<usize>)> {
        self.any.store(false, Ordering::SeqCst);
        let mut come = Vec::new();
        for (mark, signal) in self.marks.iter().zip(0..) {
            if !mark.swap(false, Ordering::SeqCst) {
                continue;
            }
            let mut all = self.listeners();
            let mut elements = Vec::new();
            let mut waits = false;
            for one in all.iter_mut().filter(|one| one.signal == signal) {
                match std::mem::replace(&mut one.treats, true) {
                    true => (one.again, waits) = (true, true),
                    false => elements.push(one.element),
                }
            }
            if !elements.is_empty() || !waits {
                come.push((signal, elements));
            }
        }
        come
    }

    pub(crate) fn nobody_heard(&self, signal: i32) {
        if let Some(act) = &*self.unheard.lock() {
            act(signal);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrives(signals: &Signals, signal: i32) {
        for mark in signals.marks(signal).unwrap() {
            mark.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_signal_waits_while_an_element_treats_it() {
        let signals = Signals::default();
        assert!(!signals.listen(10, 7));
        arrives(&signals, 10);
        assert_eq!(signals.take(), [(10, vec![7])]);
        arrives(&signals, 10);
        assert!(signals.have_come() && signals.take().is_empty());
        assert!(signals.listen(10, 7), "it has waited");
        assert!(signals.have_come());
        assert_eq!(signals.take(), [(10, vec![7])]);
        assert!(!signals.listen(10, 7) && !signals.have_come());
    }

    #[test]
    fn a_signal_that_has_waited_goes_to_nobody_when_the_element_forgets_it() {
        let signals = Signals::default();
        signals.listen(10, 7);
        arrives(&signals, 10);
        assert_eq!(signals.take(), [(10, vec![7])]);
        arrives(&signals, 10);
        assert!(signals.take().is_empty());
        assert!(signals.forget(10, 7));
        assert_eq!(signals.take(), [(10, vec![])]);
        assert!(signals.wanted().is_empty());
    }
}
