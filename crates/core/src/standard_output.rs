//! Standard output, when elements write data to it.
//!
//! A program that prints reports of its own asks [`has_data`] first, and prints them on standard error if it is true:
//! `ToDump(-)` followed by a summary would not be a capture file.

use std::io::{Stdout, stdout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static HAS_DATA: AtomicBool = AtomicBool::new(false);

/// Standard output, for an element's data. From now on [`has_data`] is true.
pub fn for_data() -> Stdout {
    HAS_DATA.store(true, Relaxed);
    stdout()
}

/// Whether an element has asked for standard output.
pub fn has_data() -> bool {
    HAS_DATA.load(Relaxed)
}
