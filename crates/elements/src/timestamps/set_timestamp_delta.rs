//! SetTimestampDelta - replaces packet timestamps with time differences
//!
//! # Synopsis
//! `SetTimestampDelta([keyword TYPE])`
//!
//! # Description
//! Replaces each nonzero timestamp with a time difference.
//!
//! # Arguments
//! - TYPE: RANGE for the time since the first timestamp seen; NOW for the time elapsed since the timestamp; FIRST for
//!   the time since the packet's first timestamp annotation. Keyword, default RANGE.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `first` (read): the first timestamp seen.
//! - `reset` (write): forgets the first timestamp; the next one seen becomes the first.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> SetTimestampDelta -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! # See also
//! SetTimestamp, AdjustTimestamp, TimeFilter

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Moment, Packet, PerPacket, Setup, Timestamp, View,
    Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetTimestampDelta {
    kind: Kind,
    /// Nanoseconds; 0 until one is seen.
    first: AtomicI64,
}

#[derive(Clone, Copy)]
enum Kind {
    Range,
    Now,
    First,
}

register!(SetTimestampDelta, "set_timestamp_delta.rs");

impl Element for SetTimestampDelta {
    const CLASS: Class = Class::new("SetTimestampDelta", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let kind: Option<String> = setup.args.optional_keyword("TYPE");
        let kind = match kind.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("RANGE") => Kind::Range,
            Some("NOW") => Kind::Now,
            Some("FIRST") => Kind::First,
            Some(_) => {
                setup.args.error("TYPE", "bad TYPE: expected ‘RANGE’, ‘NOW’ or ‘FIRST’");
                Kind::Range
            }
        };
        setup.args.complete()?;
        Ok(Self { kind, first: 0.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("first", |it, _| Timestamp::from_nanos(it.first.load(Relaxed)).to_string());
        handlers.write("reset", |it, _| {
            it.first.store(0, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for SetTimestampDelta {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let time = packet.timestamp();
        if time.is_zero() {
            return Way::ON;
        }
        let delta = match self.kind {
            Kind::Range => time - self.first_seen(time),
            Kind::First => time - packet.first_timestamp(),
            // Needs the clock.
            Kind::Now => return Way::aside(0),
        };
        packet.set_timestamp(delta);
        Way::ON
    }

    fn aside(&self, cx: &mut Context, (): &mut (), mut packet: Packet, _: Way) -> Option<Packet> {
        packet.set_timestamp(cx.refresh_now() - packet.timestamp());
        Some(packet)
    }
}

impl SetTimestampDelta {
    fn first_seen(&self, time: Timestamp) -> Timestamp {
        match self.first.compare_exchange(0, time.as_nanos(), Relaxed, Relaxed) {
            Ok(_) => time,
            Err(first) => Timestamp::from_nanos(first),
        }
    }
}
