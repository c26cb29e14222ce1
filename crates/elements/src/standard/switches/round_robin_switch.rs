//! RoundRobinSwitch - distributes packets over outputs in turn
//!
//! # Synopsis
//! `RoundRobinSwitch([keyword SPLITBATCH])`
//!
//! # Description
//! Sends the first packet to output 0, the next one to output 1, and so on. After the last output, it starts at
//! output 0 again. All threads share this sequence without synchronisation, so the distribution is only approximate
//! when several threads push packets at the same time.
//!
//! # Arguments
//! - SPLITBATCH: whether each packet goes to the next output. If false, all packets of a batch go to one output, and the
//!   next batch to the next output. Keyword, default true.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: RoundRobinSwitch;
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! StrideSwitch, HashSwitch, Switch, RandomSwitch

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{
    Class, Context, Element, Failed, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct RoundRobinSwitch {
    /// The output of the next packet.
    next: AtomicUsize,
    outputs: usize,
    splits: bool,
}

register!(RoundRobinSwitch, "round_robin_switch.rs");

impl Element for RoundRobinSwitch {
    const CLASS: Class = Class::new("RoundRobinSwitch", "1/1-", "h/h");
    /// The output of the current batch, unless batches are split.
    type Local = Option<u16>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let splits = setup.args.keyword("SPLITBATCH", true);
        setup.args.complete()?;
        Ok(Self { next: 0.into(), outputs: setup.outputs().max(1), splits })
    }
}

impl PerPacket for RoundRobinSwitch {
    const ROUTES: bool = true;
    const ENDS: bool = true;

    #[inline(always)]
    fn treat(&self, current: &mut Option<u16>, _: &mut View, _: &mut Moment) -> Way {
        if self.splits {
            return Way::output(self.take_turn());
        }
        Way::output(*current.get_or_insert_with(|| self.take_turn()))
    }

    fn end(&self, _: &mut Context, current: &mut Option<u16>) {
        *current = None;
    }
}

impl RoundRobinSwitch {
    #[inline(always)]
    fn take_turn(&self) -> u16 {
        let output = self.next.load(Relaxed);
        self.next.store((output + 1) % self.outputs, Relaxed);
        output as u16
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn outputs_take_turns_across_batches() {
        let mut rig = Rig::new("RoundRobinSwitch", 1, 3).unwrap();
        let out = rig.push(0, &["a", "b", "c", "d"]);
        assert_eq!(out, [vec![b"a", b"d"], vec![b"b"], vec![b"c"]]);
        let out = rig.push(0, &["e", "f"]);
        assert_eq!(out, [vec![], vec![b"e"], vec![b"f"]]);
        assert!(Rig::new("RoundRobinSwitch(2)", 1, 2).is_err());
    }

    #[test]
    fn a_batch_can_stay_whole() {
        let mut rig = Rig::new("RoundRobinSwitch(SPLITBATCH false)", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"]), [vec![b"a", b"b", b"c"], vec![]]);
        assert_eq!(rig.push(0, &["d", "e"]), [vec![], vec![b"d", b"e"]]);
        assert_eq!(rig.push(0, &["f"]), [vec![b"f"], vec![]]);
    }
}
