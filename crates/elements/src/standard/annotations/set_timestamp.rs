//! SetTimestamp - sets the timestamp annotation of packets
//!
//! # Synopsis
//! `SetTimestamp([TIMESTAMP, keywords FIRST, PER_BATCH])`
//!
//! # Description
//! Sets the timestamp annotation of each packet to TIMESTAMP, or to the current time. A thread normally reads
//! the time once per round of its loop, so all packets of a batch get the same timestamp.
//!
//! # Arguments
//! - TIMESTAMP: seconds since 1970. Positional, default: the current time.
//! - FIRST: whether to set the first-timestamp annotation instead. Default false.
//! - DELTA: must be false; use SetTimestampDelta.
//! - PER_BATCH: accepted without effect: packets of one batch always get the same time.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(trace.pcap) -> SetTimestamp -> ToDump(now.pcap);
//! ```
//!
//! # See also
//! InfiniteSource, FromDump

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Setup, Timestamp, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetTimestamp {
    /// `None` for the current time.
    time: Option<Timestamp>,
    first: bool,
}

register!(SetTimestamp, "set_timestamp.rs");

impl Element for SetTimestamp {
    const CLASS: Class = Class::new("SetTimestamp", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let time = setup.args.optional("TIMESTAMP");
        let first = setup.args.keyword("FIRST", false);
        let delta = setup.args.keyword("DELTA", false);
        setup.args.ignored::<bool>(
            "PER_BATCH",
            Kind::Keyword,
            "packets of one batch always get the same time",
        );
        setup.args.complete()?;
        if delta {
            let message = "SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)";
            setup.args.error("DELTA", message);
            return Err(Failed);
        }
        Ok(Self { time, first })
    }
}

impl PerPacket for SetTimestamp {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let time = self.time.unwrap_or_else(|| at.now());
        match self.first {
            true => packet.set_first_timestamp(time),
            false => packet.set_timestamp(time),
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    fn stamped(element: &str) -> Packet {
        let mut rig = Rig::new(element, 1, 1).unwrap();
        let packet = Packet::from_bytes(b"a").unwrap();
        rig.push_packets(0, vec![packet])[0].remove(0)
    }

    #[test]
    fn sets_one_timestamp_or_the_other() {
        let noon = Timestamp::from_millis(43_200_250);
        let packet = stamped("SetTimestamp(43200.25)");
        assert_eq!((packet.timestamp(), packet.first_timestamp()), (noon, Timestamp::ZERO));
        let packet = stamped("SetTimestamp(43200.25, FIRST true)");
        assert_eq!((packet.timestamp(), packet.first_timestamp()), (Timestamp::ZERO, noon));
        assert_eq!(stamped("SetTimestamp").timestamp(), Timestamp::from_secs(1_000_000_000));
        assert!(Rig::new("SetTimestamp(DELTA true)", 1, 1).is_err());
    }
}
