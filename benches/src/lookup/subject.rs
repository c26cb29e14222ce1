//! The structures, behind one interface.

use std::hint::black_box;

use millrace_elements::ip::lookup::{
    Command, Dir24x8Writer, Error, FibWriter, Hop, HopId, Order, PoptrieWriter, RadixWriter,
    RangesWriter, Route, RouteTable,
};

/// Addresses that are looked up together: a whole batch.
pub(crate) const BATCH: usize = 256;

/// A structure by name.
pub(crate) struct Structure {
    /// The name in the report, and for `--only`.
    pub(crate) name: &'static str,
    /// Makes a table with routes.
    pub(crate) build: fn(&[Route]) -> Built,
}

/// A table, or the reason why there is none.
type Built = Result<Box<dyn Subject>, Error>;

/// Those that are measured.
pub(crate) const STRUCTURES: &[Structure] = &[
    Structure { name: "dir-24-8", build: built::<Dir24x8Writer> },
    Structure { name: "dxr", build: built::<RangesWriter> },
    Structure { name: "poptrie", build: built::<PoptrieWriter> },
    Structure { name: "radix", build: built::<RadixWriter> },
];

/// A routing table that can be measured.
pub(crate) trait Subject: Sync {
    /// The hop of each address, looked up as a batch.
    fn hops(&self, addresses: &[u32]) -> Vec<Option<Hop>>;

    /// Looks addresses up one after the other. Each lookup depends on the previous hop, as a packet's other work
    /// waits for its route.
    fn single(&self, addresses: &[u32]);

    /// Looks addresses up in batches.
    fn batched(&self, addresses: &[u32]);

    /// Carries out a transaction.
    ///
    /// # Errors
    /// A command cannot be carried out.
    fn apply(&self, commands: &[Command]) -> Result<(), Error>;

    /// Bytes of the routes, and of the structure.
    fn memory(&self) -> (usize, usize);
}

fn built<W: FibWriter + Sync>(routes: &[Route]) -> Built {
    let table = RouteTable::<W>::new(Order::Address)?;
    table.load(routes)?;
    Ok(Box::new(table))
}

impl<W: FibWriter + Sync> Subject for RouteTable<W> {
    fn hops(&self, addresses: &[u32]) -> Vec<Option<Hop>> {
        let mut found = Vec::with_capacity(addresses.len());
        let mut ids = [HopId::NONE; BATCH];
        for batch in addresses.chunks(BATCH) {
            let snapshot = self.snapshot();
            snapshot.lookup_batch(batch, &mut ids);
            found.extend(ids.iter().take(batch.len()).map(|&id| snapshot.hop(id)));
        }
        found
    }

    #[inline(never)]
    fn single(&self, addresses: &[u32]) {
        let snapshot = self.snapshot();
        let mut last = 0;
        for address in addresses {
            // Outputs are small numbers, so the address stays nearly the same.
            last = snapshot.lookup(address ^ (last >> 16)).map_or(0, |hop| hop.port);
        }
        black_box(last);
    }

    #[inline(never)]
    fn batched(&self, addresses: &[u32]) {
        let mut ids = [HopId::NONE; BATCH];
        for batch in addresses.chunks(BATCH) {
            self.snapshot().lookup_batch(batch, &mut ids);
            black_box(&ids);
        }
    }

    fn apply(&self, commands: &[Command]) -> Result<(), Error> {
        RouteTable::apply(self, commands)
    }

    fn memory(&self) -> (usize, usize) {
        RouteTable::memory(self)
    }
}
