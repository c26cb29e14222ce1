//! One launch over one batch, with the bytes that it may access and its result, so that the [PTX](super::ptx) and the
//! [sanitizers](super::sanitize) can run it again.

use std::cell::Cell;

use crate::kernel::{Header, Kernel, Launch, MAX_TABLES};

/// How a launch may access a byte of its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) owner: Owner,
    /// True if the owner may also write it.
    pub(crate) writable: bool,
}

/// The rows that may read a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Owner {
    /// None: it is between columns, after a text, or in a column of rows that do not exist.
    #[default]
    Nobody,
    Row(u32),
    All,
}

/// A launch over all rows of a slot.
pub(crate) struct Case<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) launch: Launch,
    /// The slot before the launch. Its last byte is the last one that may be accessed.
    pub(crate) before: &'a [u8],
    /// The slot after the launch.
    pub(crate) after: &'a [u8],
    /// The permissions of each byte of the slot.
    pub(crate) grants: &'a [Grant],
    pub(crate) table: &'a [u32],
}

impl Case<'_> {
    pub(crate) fn rows(&self) -> usize {
        word(self.before, 0) as usize
    }

    /// The offset of the table's address in the header.
    pub(crate) fn table_at(&self) -> usize {
        table_at(&self.launch)
    }
}

pub(crate) fn table_at(launch: &Launch) -> usize {
    std::mem::offset_of!(Header, table) + 8 * (launch.table as usize % MAX_TABLES)
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The permissions of a launch: `widths` are the sizes of its slices, `written` is the slice that it writes. Bytes
/// after the last one that may be accessed have none.
pub(crate) fn grants(
    launch: &Launch,
    slot: &[u8],
    widths: &[usize],
    written: Option<usize>,
) -> Vec<Grant> {
    let mut grants = vec![Grant::default(); slot.len()];
    let mut grant = |at: usize, bytes: usize, owner: Owner, writable: bool| {
        for grant in &mut grants[at..at + bytes] {
            // Texts may overlap.
            let shared = grant.owner != Owner::Nobody && grant.owner != owner;
            *grant = Grant { owner: if shared { Owner::All } else { owner }, writable };
        }
    };
    grant(0, 4, Owner::All, false);
    grant(8, 4, Owner::All, false);
    grant(table_at(launch), 8, Owner::All, false);
    for row in 0..word(slot, 0) as usize {
        let owner = Owner::Row(row as u32);
        for (slice, &width) in widths.iter().enumerate() {
            grant(launch.input[slice].of(row), width, owner, written == Some(slice));
            grant(launch.valid[slice].of(row), 2, owner, false);
        }
        grant(launch.predicate.of(row), 4, owner, true);
        grant(launch.result.of(row), 4, owner, true);
        if launch.offset.stride != 0 {
            grant(launch.offset.of(row), 4, owner, false);
            grant(launch.length.of(row), 4, owner, false);
            let (offset, length) =
                (word(slot, launch.offset.of(row)), word(slot, launch.length.of(row)));
            let there = word(slot, 8);
            if offset < there && offset.is_multiple_of(16) {
                let length = length.min(there - offset) as usize;
                grant((launch.payload + offset) as usize, length, owner, false);
            }
        }
    }
    let end = grants.iter().rposition(|grant| grant.owner != Owner::Nobody);
    grants.truncate(end.map_or(0, |last| last + 1));
    grants
}

/// A function that receives cases.
pub(crate) type Observer = Box<dyn FnMut(&Case<'_>)>;

thread_local! {
    static OBSERVER: Cell<Option<Observer>> = const { Cell::new(None) };
}

/// Passes every case of the tests in `tests` to the observer, instead of running its PTX.
pub(crate) fn observe(observer: Observer, tests: impl FnOnce()) {
    OBSERVER.set(Some(observer));
    tests();
    OBSERVER.set(None);
}

/// Returns true if there is an observer, and passes the case to it.
pub(crate) fn is_observed(case: &Case<'_>) -> bool {
    let Some(mut observer) = OBSERVER.take() else { return false };
    observer(case);
    OBSERVER.set(Some(observer));
    true
}
