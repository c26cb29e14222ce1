//! Plain lists of routes that a lookup reads from the front, for a handful of routes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::fib::{Change, Fib, FibWriter, Readers, Routes};
use super::hops::HopId;
use super::rib::Rib;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::Prefix;

#[derive(Clone, Copy, Debug)]
struct Row {
    bits: u32,
    mask: u32,
    hop: HopId,
}

impl Row {
    fn new(prefix: Prefix, hop: HopId) -> Row {
        Row { bits: prefix.first(), mask: prefix.mask(), hop }
    }

    #[inline]
    fn contains(&self, address: u32) -> bool {
        address & self.mask == self.bits
    }
}

/// Routes in the order of addition. A lookup reads them all.
#[derive(Clone, Debug)]
pub struct Linear(Arc<[Row]>);

impl Fib for Linear {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        let rows = self.0.iter().filter(|row| row.contains(address));
        // Longer prefixes have larger masks.
        rows.max_by_key(|row| row.mask).map_or(HopId::NONE, |row| row.hop)
    }
}

/// Routes in an order in which each route precedes those whose networks contain its own. A lookup stops at the first
/// match.
#[derive(Clone, Debug)]
pub struct Sorted(Arc<[Row]>);

impl Fib for Sorted {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        let row = self.0.iter().find(|row| row.contains(address));
        row.map_or(HopId::NONE, |row| row.hop)
    }
}

/// The writer of [`Linear`].
#[derive(Debug)]
pub struct LinearWriter(Linear);

/// The writer of [`Sorted`].
#[derive(Debug)]
pub struct SortedWriter(Sorted);

macro_rules! list_writer {
    ($writer:ident, $list:ident, $rows:expr) => {
        impl FibWriter for $writer {
            type Fib = $list;

            fn new() -> Result<Self, Error> {
                Ok(Self($list(Arc::new([]))))
            }

            fn fib(&self) -> $list {
                self.0.clone()
            }

            fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
                self.0 = $list($rows(routes.rib));
                Ok(())
            }

            fn update(
                &mut self,
                routes: Routes<'_>,
                _changes: &[Change],
                readers: &mut dyn Readers<$list>,
            ) -> Result<(), Error> {
                self.rebuild(routes)?;
                readers.publish(self.fib());
                Ok(())
            }

            fn memory(&self) -> usize {
                size_of_val(&*self.0.0)
            }
        }
    };
}

list_writer!(LinearWriter, Linear, |rib: &Rib| {
    rib.list().into_iter().map(|(prefix, entry)| Row::new(prefix, entry.hop)).collect()
});

list_writer!(SortedWriter, Sorted, |rib: &Rib| {
    sorted(rib).into_iter().map(|(prefix, hop)| Row::new(prefix, hop)).collect()
});

/// The routes as SortedIPLookup lists them: each route precedes those whose networks contain its own; otherwise they
/// are in the table's order.
pub(crate) fn sorted(rib: &Rib) -> Vec<(Prefix, HopId)> {
    let list = rib.list();
    let places: HashMap<Prefix, usize> =
        list.iter().enumerate().map(|(place, (prefix, _))| (*prefix, place)).collect();
    // For each route, the number of routes within its network that are not yet in `sorted`.
    let mut within = vec![0usize; list.len()];
    let around = |prefix: Prefix| {
        let mut around: Vec<usize> =
            rib.around(prefix).filter_map(|(prefix, _)| places.get(&prefix).copied()).collect();
        around.sort_unstable();
        around
    };
    for &(prefix, _) in &list {
        for place in around(prefix) {
            within[place] += 1;
        }
    }
    let leaves: Vec<usize> = (0..list.len()).filter(|&place| within[place] == 0).collect();
    let mut sorted = Vec::with_capacity(list.len());
    let mut ready = VecDeque::new();
    for leaf in leaves {
        ready.push_back(leaf);
        while let Some((prefix, entry)) = ready.pop_front().and_then(|place| list.get(place)) {
            sorted.push((*prefix, entry.hop));
            for place in around(*prefix) {
                within[place] -= 1;
                if within[place] == 0 {
                    ready.push_back(place);
                }
            }
        }
    }
    sorted
}
