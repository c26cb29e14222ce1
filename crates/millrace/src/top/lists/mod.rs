//! The tables: from the figures to rows, sorted and filtered.

mod choice;
mod devices;
mod drops;
mod elements;
mod queues;
mod threads;

pub(crate) use threads::load_ink;

use std::collections::BTreeSet;

use super::data::Data;
use super::listing::Listing;
pub(crate) use choice::Choice;

/// A table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    #[default]
    Elements,
    Devices,
    Threads,
    Drops,
    Queues,
}

impl Kind {
    /// All of them, in the order of their keys.
    pub(crate) const ALL: [Self; 5] =
        [Self::Elements, Self::Devices, Self::Threads, Self::Drops, Self::Queues];

    /// Its title.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Elements => "Elements",
            Self::Devices => "Devices",
            Self::Threads => "Threads",
            Self::Drops => "Drops",
            Self::Queues => "Queues",
        }
    }
}

/// The rows of a table.
pub(crate) fn listing<'a>(kind: Kind, data: &'a Data, choice: &Choice) -> Listing<'a> {
    match kind {
        Kind::Elements => elements::listing(data, choice),
        Kind::Devices => devices::listing(data, choice),
        Kind::Threads => threads::listing(data, choice),
        Kind::Drops => drops::listing(data, choice),
        Kind::Queues => queues::listing(data, choice),
    }
}

/// The groups of a table.
pub(crate) fn groups(kind: Kind, data: &Data) -> BTreeSet<String> {
    match kind {
        Kind::Elements => elements::compounds(data),
        Kind::Drops => drops::reasons(data),
        Kind::Devices | Kind::Threads | Kind::Queues => BTreeSet::new(),
    }
}

/// How the table is sorted before one sorts it otherwise.
pub(crate) fn usual_order(kind: Kind) -> Option<(usize, bool)> {
    match kind {
        Kind::Elements => Some((elements::LOAD, false)),
        Kind::Drops => Some((drops::RATE, false)),
        Kind::Devices | Kind::Threads | Kind::Queues => None,
    }
}
