//! RandomSwitch - sends each packet to a randomly chosen output
//!
//! # Synopsis
//! `RandomSwitch`
//!
//! # Description
//! Sends each packet to one of its outputs, chosen at random. All outputs are equally likely.
//!
//! # Arguments
//! None.
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
//! InfiniteSource(LIMIT 10) -> s :: RandomSwitch;
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! RoundRobinSwitch, HashSwitch, RandomSample

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct RandomSwitch {
    outputs: usize,
}

register!(RandomSwitch, "random_switch.rs");

impl Element for RandomSwitch {
    const CLASS: Class = Class::new("RandomSwitch", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { outputs: setup.outputs().max(1) })
    }
}

impl PerPacket for RandomSwitch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, at: &mut Moment) -> Way {
        Way::output(at.random().usize(..self.outputs) as u16)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn outputs_get_about_equal_shares() {
        let mut rig = Rig::new("RandomSwitch", 1, 3).unwrap();
        let out = rig.push(0, &["a"; 3000]);
        assert_eq!(out.iter().map(Vec::len).sum::<usize>(), 3000);
        // The standard deviation is 26.
        assert!(out.iter().all(|packets| (850..1150).contains(&packets.len())));
    }
}
