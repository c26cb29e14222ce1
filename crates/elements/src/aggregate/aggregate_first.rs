//! AggregateFirst - separates the first packet of each aggregate from the rest
//!
//! # Synopsis
//! `AggregateFirst([keyword NOTIFIER])`
//!
//! # Description
//! Forwards the first packet of each aggregate. The others leave by output 1, or are dropped if it is not connected.
//!
//! It keeps one bit for each aggregate seen: close numbers, such as those of AggregateIPFlows, share 512 bytes per
//! 4,096 numbers.
//!
//! # Arguments
//! - NOTIFIER: an AggregateIPFlows element. Accepted and ignored: aggregates that have ended stay in memory, and
//!   AggregateIPFlows never uses a number twice. Keyword.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for the others.
//!
//! # Handlers
//! - `clear` (write): forgets all aggregates.
//!
//! # Drops
//! - filtered: the packet was not the first of its aggregate, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> AggregateLength -> AggregateFirst -> Print(first) -> Discard;
//! ```
//!
//! # See also
//! AggregateLast, AggregateIP, AggregateIPFlows

use std::collections::HashMap;

use foldhash::fast::RandomState;
use millrace_core::args::ElementRef;
use millrace_core::{
    Class, Element, Failed, Handlers, Lock, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct AggregateFirst {
    seen: Lock<Seen>,
}

/// The aggregates that have been seen: the upper bits select a block of bits.
type Seen = HashMap<u32, Box<[u64; 64]>, RandomState>;

register!(AggregateFirst, "aggregate_first.rs");

impl Element for AggregateFirst {
    const CLASS: Class = Class::new("AggregateFirst", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let _: Option<ElementRef> = setup.args.optional_keyword("NOTIFIER");
        setup.args.complete()?;
        Ok(Self { seen: Lock::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |first, _| {
            first.seen.lock().clear();
            Ok(())
        });
    }
}

impl PerPacket for AggregateFirst {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.is_first(packet.aggregate()) {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::Filtered),
        }
    }
}

impl AggregateFirst {
    fn is_first(&self, aggregate: u32) -> bool {
        let mut seen = self.seen.lock();
        let block = seen.entry(aggregate >> 12).or_insert_with(|| Box::new([0; 64]));
        let word = &mut block[(aggregate >> 6 & 63) as usize];
        let bit = 1 << (aggregate & 63);
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }
}
