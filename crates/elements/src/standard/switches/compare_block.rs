//! CompareBlock - diverts packets of flows whose forward and reverse rates are unbalanced
//!
//! # Synopsis
//! `CompareBlock(FWD_WEIGHT, REV_WEIGHT, THRESH)`
//!
//! # Description
//! Compares the forward and reverse rate annotations of each packet (FWD_RATE and REV_RATE, set by
//! IPRateMonitor). Rates below 1 count as 1. A packet goes to output 1 if at least one rate is above THRESH, and
//! the forward rate times FWD_WEIGHT is greater than the reverse rate times REV_WEIGHT. Otherwise it goes to
//! output 0.
//!
//! # Arguments
//! - FWD_WEIGHT, REV_WEIGHT: weights of the rates. Positional, mandatory.
//! - THRESH: rates are compared only if at least one of them is above this. Positional, mandatory.
//!
//! # Ports
//! One push input, two push outputs.
//!
//! # Handlers
//! - `fwd_weight`, `rev_weight`, `thresh` (read, write): the arguments of these names.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> b :: CompareBlock(5, 2, 100);
//! b [0] -> Discard;
//! b [1] -> Discard;
//! ```
//!
//! # See also
//! Block

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::{click_integer, forward_rate, reverse_rate};

/// The element; its manual is at the top of the file.
pub struct CompareBlock {
    forward: AtomicI32,
    reverse: AtomicI32,
    thresh: AtomicI32,
}

register!(CompareBlock, "compare_block.rs");

impl Element for CompareBlock {
    const CLASS: Class = Class::new("CompareBlock", "1/2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let forward: i32 = setup.args.mandatory("FWD_WEIGHT");
        let reverse: i32 = setup.args.mandatory("REV_WEIGHT");
        let thresh: i32 = setup.args.mandatory("THRESH");
        setup.args.complete()?;
        Ok(Self { forward: forward.into(), reverse: reverse.into(), thresh: thresh.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        number(handlers, "fwd_weight", |block| &block.forward);
        number(handlers, "rev_weight", |block| &block.reverse);
        number(handlers, "thresh", |block| &block.thresh);
    }
}

impl PerPacket for CompareBlock {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::output(u16::from(self.is_lopsided(packet)))
    }
}

fn number(
    handlers: &mut Handlers<CompareBlock>,
    name: &str,
    which: fn(&CompareBlock) -> &AtomicI32,
) {
    handlers.read(name, move |block, _| which(block).load(Relaxed));
    handlers.write(name, move |block, call| {
        which(block).store(click_integer(call)?, Relaxed);
        Ok(())
    });
}

impl CompareBlock {
    fn is_lopsided(&self, packet: &View) -> bool {
        let (forward, reverse) = (forward_rate(packet).max(1), reverse_rate(packet).max(1));
        let thresh = self.thresh.load(Relaxed);
        let weighted =
            |rate: i32, weight: &AtomicI32| i64::from(rate) * i64::from(weight.load(Relaxed));
        (forward > thresh || reverse > thresh)
            && weighted(forward, &self.forward) > weighted(reverse, &self.reverse)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn unbalanced_flows_go_to_output_1() {
        let mut rig = Rig::new("CompareBlock(5, 2, 100)", 1, 2).unwrap();
        let packet = |(forward, reverse): (u32, u32)| {
            let mut packet = Packet::from_bytes(b"a").unwrap();
            packet.set_anno_u32(20, forward);
            packet.set_anno_u32(24, reverse);
            packet
        };
        // 100 is not above the threshold; 5 * 101 > 2 * 252; 5 * 101 < 2 * 253; 5 * 1 > 2 * 1 but below it.
        let rates = [(100, 0), (101, 252), (101, 253), (0, 0), (60, 101)];
        let out = rig.push_packets(0, rates.map(packet).into());
        assert_eq!((out[0].len(), out[1].len()), (3, 2));
        rig.write("fwd_weight", "0").unwrap();
        assert_eq!(rig.push_packets(0, rates.map(packet).into())[1].len(), 0);
        assert_eq!(rig.read("rev_weight").unwrap(), "2");
    }
}
