//! The counts of a seven-field classifier, and the handlers that show them. [`SDNClassifier`](crate::classify::sdn_classifier)
//! and its GPU form share them.

use std::sync::OnceLock;

use millrace_core::{Context, Count, Element, Handlers, Lock, PerThread};

use super::rules::{FILTERED, NO_MATCH};

/// Packets by destination.
pub(crate) struct SdnCounts {
    outputs: usize,
    /// By output; then packets that rules dropped, and packets dropped because no rule matched.
    of_threads: PerThread<OnceLock<Box<[Count]>>>,
    /// The counts of the classifier before a hot swap, in the same order.
    before: Lock<Vec<u64>>,
}

impl SdnCounts {
    /// Zero counts for a classifier with this many outputs.
    pub(crate) fn new(outputs: usize) -> Self {
        Self { outputs, of_threads: PerThread::default(), before: Lock::default() }
    }

    /// Counts packets by their ports, as returned by [`Compiled::port`](super::rules::Compiled::port).
    #[inline]
    pub(crate) fn add(&self, cx: &Context, ports: impl Iterator<Item = u16>) {
        let zeros = || (0..self.outputs + 2).map(|_| Count::default()).collect();
        let counts = self.of_threads.mine(cx).get_or_init(zeros);
        for port in ports {
            let at = match port {
                FILTERED => self.outputs,
                NO_MATCH => self.outputs + 1,
                port => port.into(),
            };
            if let Some(count) = counts.get(at) {
                count.add(1);
            }
        }
    }

    fn of(&self, at: usize) -> u64 {
        let counts = self.of_threads.iter().filter_map(|counts| counts.get()?.get(at));
        let before = self.before.lock().get(at).copied().unwrap_or(0);
        counts.map(Count::get).sum::<u64>() + before
    }

    /// Continues from the counts of another one, which may have more or fewer outputs.
    pub(crate) fn take(&self, old: &Self) {
        let of_output = |at| if at < old.outputs { old.of(at) } else { 0 };
        let dropped = [old.outputs, old.outputs + 1].map(|at| old.of(at));
        *self.before.lock() = (0..self.outputs).map(of_output).chain(dropped).collect();
    }

    fn reset(&self) {
        let counts = self.of_threads.iter().filter_map(OnceLock::get);
        counts.flatten().for_each(|count| count.set(0));
        self.before.lock().clear();
    }

    /// One line each: the number of the output, `drop` or `none`, and the count.
    fn show(&self) -> String {
        let name = |at: usize| match at.checked_sub(self.outputs) {
            None => at.to_string(),
            Some(0) => "drop".to_owned(),
            Some(_) => "none".to_owned(),
        };
        (0..self.outputs + 2).map(|at| format!("{} {}\n", name(at), self.of(at))).collect()
    }
}

/// The handlers `counts` and `reset_counts`.
pub(crate) fn handlers<E: Element>(handlers: &mut Handlers<E>, counts: fn(&E) -> &SdnCounts) {
    handlers.read("counts", move |element, _| counts(element).show());
    handlers.write("reset_counts", move |element, _| {
        counts(element).reset();
        Ok(())
    });
}
