//! The accesses of the parts, by their places in the source, and the one that is weakened.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::Ordering;

use loom::thread::ThreadId;

/// An access to an atomic, or a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The file that it stands in.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
    column: u32,
}

impl Site {
    fn of(place: &'static Location<'static>) -> Self {
        Self { file: place.file(), line: place.line(), column: place.column() }
    }

    /// The file's path in the repository.
    pub fn path(&self) -> String {
        // The files of other crates are named from here.
        match self.file.rsplit_once("../") {
            Some((_, path)) => format!("crates/{path}"),
            None => self.file.to_owned(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path(), self.line)
    }
}

#[derive(Default)]
struct Seen {
    sites: BTreeMap<Site, Ordering>,
    weakened: Option<Site>,
}

thread_local! {
    /// Each model runs on a thread of its own.
    static SEEN: RefCell<Seen> = RefCell::default();
    /// The threads of the model whose last sequentially consistent access, or fence, was a change.
    static CHANGED: RefCell<HashSet<ThreadId>> = RefCell::default();
}

/// An execution begins.
pub fn begin() {
    CHANGED.with_borrow_mut(HashSet::clear);
}

/// The running thread has made a sequentially consistent change.
pub(super) fn note_change() {
    CHANGED.with_borrow_mut(|changed| changed.insert(loom::thread::current().id()));
}

/// Whether it has made one since it asked last.
pub(super) fn has_changed() -> bool {
    CHANGED.with_borrow_mut(|changed| changed.remove(&loom::thread::current().id()))
}

/// From now on, an access of this thread's models is as weak as there is.
pub fn weaken(site: Option<Site>) {
    SEEN.with_borrow_mut(|seen| *seen = Seen { weakened: site, ..Seen::default() });
}

/// The accesses that were made since [`weaken`], with their orders; relaxed ones left out.
pub fn seen() -> BTreeMap<Site, Ordering> {
    SEEN.with_borrow(|seen| seen.sites.clone())
}

/// The order of an access: the one that it asks for, unless it is weakened. `None` for a fence that is left out.
pub(super) fn order(asked: Ordering, place: &'static Location<'static>) -> Option<Ordering> {
    if asked == Ordering::Relaxed {
        return Some(asked);
    }
    SEEN.with_borrow_mut(|seen| {
        let site = Site::of(place);
        seen.sites.insert(site, asked);
        (seen.weakened != Some(site)).then_some(asked)
    })
}
