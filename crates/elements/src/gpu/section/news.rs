//! Messages about a section's device while the router runs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use millrace_core::{Lock, Timestamp};

/// Reports when a section's device stops working, and when it works again: not each fault, but the state, at most once
/// a second.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Whether the last report was that it does not work.
    failed: AtomicBool,
    /// No report is made before this time.
    until: Lock<Timestamp>,
}

/// The minimum time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

impl News {
    /// The message to print when a thread finds that the device has failed, or that it works.
    #[inline]
    pub(crate) fn of(&self, failed: bool, now: Timestamp) -> Option<&'static str> {
        if failed == self.failed.load(Relaxed) { None } else { self.changed(failed, now) }
    }

    #[cold]
    fn changed(&self, failed: bool, now: Timestamp) -> Option<&'static str> {
        let mut until = self.until.lock();
        if now < *until || self.failed.swap(failed, Relaxed) == failed {
            return None;
        }
        *until = now + INTERVAL;
        Some(match failed {
            true => "the device has failed; the CPU does its work (handler failures says how)",
            false => "the device works again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_at_most_once_a_second() {
        let news = News::default();
        let failed_at = |millis, failed| {
            let told = news.of(failed, Timestamp::from_millis(millis));
            told.map(|told| told.contains("failed"))
        };
        assert_eq!(failed_at(5000, false), None);
        assert_eq!(failed_at(5001, true), Some(true));
        assert_eq!(failed_at(5002, true), None);
        assert_eq!(failed_at(5003, false), None);
        assert_eq!(failed_at(5500, true), None);
        assert_eq!(failed_at(6001, false), Some(false));
        assert_eq!(failed_at(6002, true), None);
        assert_eq!(failed_at(7001, true), Some(true));
    }
}
