//! RandomSource - generates packets with random contents as fast as possible
//!
//! # Synopsis
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, keywords TIMESTAMP, HEADROOM, STOP, END_CALL])`
//!
//! # Description
//! Makes packets of LENGTH random bytes and pushes BURST of them each time it is scheduled, up to LIMIT in
//! total. It waits while every Queue downstream is full. On a pull output, it returns as many packets as
//! the puller requests.
//!
//! # Arguments
//! - LENGTH: packet length, 0 to 65535. Positional, mandatory.
//! - LIMIT: number of packets to make; negative for no limit. Positional, default -1.
//! - BURST: packets to push each time, at least 1. Positional, default 1.
//! - ACTIVE: whether the source sends packets. Positional, default true.
//! - TIMESTAMP: whether to set the timestamp annotation to the time when the packet is made. Default true.
//! - HEADROOM: headroom of the packets, in bytes. Default 128.
//! - STOP: whether to stop the program after the last packet. Default false.
//! - END_CALL: write handler to call after the last packet, such as `"counter.reset"`.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `length`, `limit`, `burst`, `active` (read, write): the arguments of these names.
//! - `count` (read): packets made so far.
//! - `reset` (write): sets `count` to 0, so that LIMIT more packets are made.
//! - `scheduled`, `home_thread` (read, write): whether the task is scheduled, and its home thread.
//!
//! # Drops
//! - no buffer: no packet memory was free.
//!
//! # Example
//! ```click
//! RandomSource(64, LIMIT 1000, BURST 32, STOP true) -> Discard;
//! ```
//!
//! # See also
//! InfiniteSource, RandomBitErrors

use millrace_core::{Args, Class, Failed, register};

use super::infinite_source::{Source, SourceClass, burst};
use super::supply::{Given, Supply};

/// The class; its manual is at the top of the file.
pub struct RandomSource;

register!(Source<RandomSource>, "random_source.rs");

impl SourceClass for RandomSource {
    const CLASS: Class = Class::new("RandomSource", "0/1", "a/a");

    fn configure(args: &mut Args<'_>) -> Result<(Supply, i32), Failed> {
        let length: i64 = args.mandatory("LENGTH");
        if !(0..=65_535).contains(&length) {
            args.error("LENGTH", format!("bad length {length}"));
        }
        let limit = args.optional("LIMIT");
        let burst = burst(args);
        let active = args.optional("ACTIVE");
        let given = Given { data: Some(Vec::new()), limit, active };
        Ok((Supply::random(args, given, length)?, burst))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn no_two_packets_are_the_same() {
        let mut rig = Rig::new("RandomSource(40, 3)", 0, 1).unwrap();
        let out = rig.pass(Default::default());
        assert_eq!(out[0].iter().map(|packet| packet.len()).collect::<Vec<_>>(), [40; 3]);
        assert_ne!(out[0][0].data(), out[0][1].data());
        assert_ne!(out[0][1].data(), out[0][2].data());
        assert!(Rig::new("RandomSource", 0, 1).is_err());
        assert!(Rig::new("RandomSource(-1)", 0, 1).is_err());
    }
}
