//! AggregateFirst - separates the first packet of each aggregate from the rest
//!
//! # Synopsis
//! `AggregateFirst([keywords NOTIFIER, CAPACITY])`
//!
//! # Description
//! Forwards the first packet of each aggregate. The others leave by output 1, or are dropped if it is not connected.
//!
//! It keeps one bit for each aggregate seen: close numbers, such as those of AggregateIPFlows, share 512 bytes per
//! 4,096 numbers. Without NOTIFIER, it keeps them until `clear` is written.
//!
//! All 2^32 aggregates need 512 MiB.
//!
//! # Arguments
//! - NOTIFIER: an AggregateIPFlows element that reports when aggregates end. When all of 4,096 adjacent numbers have
//!   ended, their memory is freed. Keyword.
//! - CAPACITY: for how many groups of 4,096 adjacent numbers there is room. Keyword, default 1048576, which is all.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for the others.
//!
//! # Handlers
//! - `clear` (write): forgets all aggregates.
//!
//! # Drops
//! - filtered: the packet was not the first of its aggregate, and output 1 is not connected.
//! - table full: the packet's aggregate is in a new group, and there are CAPACITY groups.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> AggregateLength -> AggregateFirst -> Print(first) -> Discard;
//! ```
//!
//! # See also
//! AggregateLast, AggregateIP, AggregateIPFlows

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use millrace_core::args::ElementRef;
use millrace_core::{
    Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Moment, PerPacket, Reason,
    Refused, Setup, Task, View, Way, register,
};

use crate::capability::{AggregateNotifier, Ended};
use crate::flows::capacity::capacity_or;

/// The element; its manual is at the top of the file.
pub struct AggregateFirst {
    seen: Lock<Seen>,
    /// The maximum number of blocks.
    capacity: usize,
    notifier: Option<Listener>,
}

/// What hears of aggregates that have ended.
struct Listener {
    flows: ElementRef,
    ended: OnceLock<Arc<Ended>>,
    task: Task,
}

register!(AggregateFirst, "aggregate_first.rs");

impl Element for AggregateFirst {
    const CLASS: Class = Class::new("AggregateFirst", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let flows: Option<ElementRef> = setup.args.optional_keyword("NOTIFIER");
        let capacity = capacity_or(&mut setup.args, u32::MAX / BLOCK + 1);
        setup.args.complete()?;
        let notifier =
            flows.map(|flows| Listener { flows, ended: OnceLock::new(), task: setup.task() });
        Ok(Self { seen: Lock::default(), capacity, notifier })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if let Some(Listener { flows, ended, task }) = &self.notifier {
            let flows = init.require::<dyn AggregateNotifier>(flows.0)?;
            // An element is initialised once.
            let _ = ended.set(flows.listen(task.clone()));
        }
        Ok(())
    }

    fn run_task(&self, _cx: &mut Context, (): &mut ()) -> bool {
        let Some(Listener { ended, task, .. }) = &self.notifier else { return false };
        task.rest();
        let ended = ended.get().map(|ended| ended.take()).unwrap_or_default();
        let mut seen = self.seen.lock();
        ended.iter().for_each(|&aggregate| seen.end(aggregate, self.capacity));
        !ended.is_empty()
    }

    fn footprint(&self) -> Footprint {
        /// The bits, and what the allocator adds.
        const BITS: usize = size_of::<[u64; 64]>() + 16;
        let blocks = self.capacity.min((u32::MAX / BLOCK) as usize + 1);
        Footprint::hash_table(blocks, size_of::<(u32, Block)>())
            .and(Footprint::tables(blocks * BITS))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |first, _| {
            *first.seen.lock() = Seen::default();
            Ok(())
        });
    }
}

impl PerPacket for AggregateFirst {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.seen.lock().is_first(packet.aggregate(), self.capacity) {
            Some(true) => Way::ON,
            Some(false) => Way::output_or_drop(1, Reason::Filtered),
            None => Way::drop(Reason::TableFull),
        }
    }
}

/// The aggregates that have come, by the upper bits of their numbers.
#[derive(Default)]
struct Seen(HashMap<u32, Block, RandomState>);

/// Adjacent numbers: a bit for each that has come, and how many of them have ended.
struct Block {
    bits: Box<[u64; 64]>,
    ended: u32,
}

/// The numbers of a block.
const BLOCK: u32 = 4096;

impl Default for Block {
    fn default() -> Self {
        Self { bits: Box::new([0; 64]), ended: 0 }
    }
}

impl Seen {
    /// The block of an aggregate; `None` if it is new and there are `capacity` blocks.
    fn block(&mut self, aggregate: u32, capacity: usize) -> Option<&mut Block> {
        let known = self.0.len();
        match self.0.entry(aggregate / BLOCK) {
            Entry::Occupied(block) => Some(block.into_mut()),
            Entry::Vacant(place) => (known < capacity).then(|| place.insert(Block::default())),
        }
    }

    fn is_first(&mut self, aggregate: u32, capacity: usize) -> Option<bool> {
        let block = self.block(aggregate, capacity)?;
        let word = &mut block.bits[(aggregate >> 6 & 63) as usize];
        let bit = 1 << (aggregate & 63);
        let is_first = *word & bit == 0;
        *word |= bit;
        Some(is_first)
    }

    /// Counts an aggregate that has ended. The last one of a block frees it: AggregateIPFlows gives no number twice.
    fn end(&mut self, aggregate: u32, capacity: usize) {
        let Some(block) = self.block(aggregate, capacity) else { return };
        block.ended += 1;
        if block.ended == BLOCK {
            self.0.remove(&(aggregate / BLOCK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_freed_when_all_its_aggregates_have_ended() {
        let mut seen = Seen::default();
        let numbers = BLOCK..2 * BLOCK;
        assert!(numbers.clone().all(|aggregate| seen.is_first(aggregate, 1) == Some(true)));
        // There is no room for another block.
        assert_eq!(seen.is_first(0, 1), None);
        numbers.clone().skip(1).for_each(|aggregate| seen.end(aggregate, 1));
        assert!(numbers.clone().all(|aggregate| seen.is_first(aggregate, 1) == Some(false)));
        seen.end(BLOCK, 1);
        assert!(seen.0.is_empty());
        assert_eq!(seen.is_first(0, 1), Some(true));
    }
}
