//! AdjustTimestamp - adds a fixed time to packet timestamps
//!
//! # Synopsis
//! `AdjustTimestamp(TIME [, keywords FIRST, ALL])`
//!
//! # Description
//! Adds TIME to the timestamp annotation of each packet. A timestamp of 0 means that the packet has none; it does not
//! change unless ALL is true.
//!
//! # Arguments
//! - TIME: seconds, which may be negative. Positional, mandatory.
//! - FIRST: whether to change the first timestamp annotation instead. Keyword, default false.
//! - ALL: whether to change timestamps of 0 too. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `time` (read, write): TIME.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> AdjustTimestamp(-3600) -> ToDump(out.pcap);
//! ```
//!
//! # See also
//! SetTimestamp, SetTimestampDelta, TimeFilter

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use millrace_core::args::SignedTime;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, Timestamp, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct AdjustTimestamp {
    /// Nanoseconds.
    time: AtomicI64,
    first: bool,
    all: bool,
}

register!(AdjustTimestamp, "adjust_timestamp.rs");

impl Element for AdjustTimestamp {
    const CLASS: Class = Class::new("AdjustTimestamp", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let SignedTime(time) = setup.args.mandatory("TIME");
        let first = setup.args.keyword("FIRST", false);
        let all = setup.args.keyword("ALL", false);
        setup.args.complete()?;
        Ok(Self { time: time.as_nanos().into(), first, all })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("time", |it, _| Timestamp::from_nanos(it.time.load(Relaxed)).to_string());
        handlers.write("time", |it, call| {
            it.time.store(call.parse::<SignedTime>()?.0.as_nanos(), Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for AdjustTimestamp {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let old = if self.first { packet.first_timestamp() } else { packet.timestamp() };
        if self.all || !old.is_zero() {
            let new = old.as_nanos().saturating_add(self.time.load(Relaxed));
            let new = Timestamp::from_nanos(new);
            if self.first {
                packet.set_first_timestamp(new);
            } else {
                packet.set_timestamp(new);
            }
        }
        Way::ON
    }
}
