//! Copies of packet data, counted by cause, so that zero copy can be verified.

use super::cache;
pub use super::cause::{Copies, CopyCause};

/// Counts one packet whose data was copied, on the calling thread's own counter.
#[inline]
pub fn count(cause: CopyCause) {
    count_many(cause, 1);
}

/// Counts `packets` packets whose data was copied.
#[inline]
pub fn count_many(cause: CopyCause, packets: u64) {
    cache::count_copies(cause, packets);
}

/// Reads all threads' counters. No thread waits for it.
pub fn snapshot() -> Copies {
    cache::copies()
}
