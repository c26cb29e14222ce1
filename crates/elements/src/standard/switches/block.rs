//! Block - diverts packets of flows whose rate exceeds a threshold
//!
//! # Synopsis
//! `Block(THRESH)`
//!
//! # Description
//! Sends packets whose forward rate annotation (FWD_RATE, set by IPRateMonitor) is at most THRESH to output 0, and
//! other packets to output 1. If THRESH is 0, all packets go to output 0.
//!
//! # Arguments
//! - THRESH: maximum rate for output 0; 0 for no limit. Positional, mandatory.
//!
//! # Ports
//! One push input, two push outputs.
//!
//! # Handlers
//! - `thresh` (read, write): the THRESH argument.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> b :: Block(100);
//! b [0] -> Discard;
//! b [1] -> Discard;
//! ```
//!
//! # See also
//! CompareBlock

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::{click_integer, forward_rate};

/// The element; its manual is at the top of the file.
pub struct Block {
    thresh: AtomicI32,
}

register!(Block, "block.rs");

impl Element for Block {
    const CLASS: Class = Class::new("Block", "1/2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let thresh: i32 = setup.args.mandatory("THRESH");
        setup.args.complete()?;
        Ok(Self { thresh: thresh.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("thresh", |block, _| block.thresh.load(Relaxed));
        handlers.write("thresh", |block, call| {
            block.thresh.store(click_integer(call)?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for Block {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let thresh = self.thresh.load(Relaxed);
        Way::output(u16::from(thresh != 0 && forward_rate(packet) > thresh))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn fast_flows_go_to_output_1() {
        let mut rig = Rig::new("Block(7)", 1, 2).unwrap();
        let packet = |rate: u32| {
            let mut packet = Packet::from_bytes(b"a").unwrap();
            packet.set_anno_u32(20, rate);
            packet
        };
        let counts = |rig: &mut Rig| {
            let out = rig.push_packets(0, [6, 7, 8, 9].map(packet).into());
            (out[0].len(), out[1].len())
        };
        assert_eq!(counts(&mut rig), (2, 2));
        rig.write("thresh", "0").unwrap();
        assert_eq!(counts(&mut rig), (4, 0));
        assert_eq!(rig.write("thresh", "many"), Err("not an integer".into()));
    }
}
