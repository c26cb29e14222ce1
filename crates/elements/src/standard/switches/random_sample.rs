//! RandomSample - samples packets at random with a given probability
//!
//! # Synopsis
//! `RandomSample(P [, keywords SAMPLE, DROP, ACTIVE])`
//!
//! # Description
//! Sends each packet to output 0 with probability P. The other packets go to output 1, or are dropped if output 1 is
//! not connected. While ACTIVE is false, all packets go to output 0.
//!
//! # Arguments
//! - P: probability that a packet is sampled (goes to output 0), 0 to 1. Positional; required unless SAMPLE or DROP
//!   is given.
//! - SAMPLE: another name for P.
//! - DROP: probability that a packet is not sampled; cannot be combined with SAMPLE.
//! - ACTIVE: whether to sample packets. Default true.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional.
//!
//! # Handlers
//! - `sampling_prob` (read, write): probability that a packet is sampled.
//! - `drop_prob` (read, write): probability that a packet is not sampled.
//! - `active` (read, write): the ACTIVE argument.
//! - `drops` (read): packets that were not sampled: dropped or sent to output 1.
//! - `config` (read, write): the current SAMPLE and ACTIVE.
//!
//! # Drops
//! - limited: the packet was not sampled, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> RandomSample(0.1) -> Discard;
//! ```
//!
//! # See also
//! RandomSwitch, RandomBitErrors

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use millrace_core::args::UFixed;
use millrace_core::{
    Class, Count, Element, Failed, HandlerError, Handlers, Moment, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct RandomSample {
    /// Sampling probability, in units of 2^-28.
    passing: AtomicU32,
    active: AtomicBool,
    drops: PerThread<Count>,
}

register!(RandomSample, "random_sample.rs");

type Probability = UFixed<28>;

/// Probability 1.
const ONE: u32 = 1 << 28;

impl Element for RandomSample {
    const CLASS: Class = Class::new("RandomSample", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let given: Option<Probability> = setup.args.optional("P");
        let sample: Option<Probability> = setup.args.optional_keyword("SAMPLE");
        let drop: Option<Probability> = setup.args.optional_keyword("DROP");
        let active = setup.args.keyword("ACTIVE", true);
        setup.args.complete()?;
        if sample.is_some() && drop.is_some() {
            setup.args.error("DROP", "give at most one of SAMPLE and DROP");
            return Err(Failed);
        }
        let passing = match drop {
            Some(UFixed(drop)) => ONE.checked_sub(drop),
            None => sample.or(given).map(|UFixed(p)| p).filter(|p| *p <= ONE),
        };
        let Some(passing) = passing else {
            setup.args.error((), "sampling probability must be between 0 and 1");
            return Err(Failed);
        };
        let drops = PerThread::default();
        Ok(Self { passing: passing.into(), active: AtomicBool::new(active), drops })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|sample, new| {
            sample.passing.store(new.passing.into_inner(), Relaxed);
            sample.active.store(new.active.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("sampling_prob", |sample, _| sample.passing());
        handlers.write("sampling_prob", |sample, call| {
            sample.passing.store(read(call)?, Relaxed);
            Ok(())
        });
        handlers.read("drop_prob", |sample, _| {
            UFixed::<28>(ONE - sample.passing.load(Relaxed)).to_string()
        });
        handlers.write("drop_prob", |sample, call| {
            sample.passing.store(ONE - read(call)?, Relaxed);
            Ok(())
        });
        handlers.read("active", |sample, _| sample.active.load(Relaxed));
        handlers.write("active", |sample, call| {
            sample.active.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.read("drops", |sample, _| sample.drops.total());
        handlers.read("config", |sample, _| {
            format!("SAMPLE {}, ACTIVE {}", sample.passing(), sample.active.load(Relaxed))
        });
    }
}

impl PerPacket for RandomSample {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, at: &mut Moment) -> Way {
        let passes = at.random().u32(..ONE) < self.passing.load(Relaxed);
        if passes || !self.active.load(Relaxed) {
            return Way::ON;
        }
        self.drops.mine(at).add(1);
        Way::output_or_drop(1, Reason::Limited)
    }
}

/// Parses a probability written to a handler.
fn read(call: &millrace_core::element::Call<'_>) -> Result<u32, HandlerError> {
    match call.parse() {
        Ok(UFixed::<28>(p)) if p <= ONE => Ok(p),
        _ => Err("Must be given a number between 0.0 and 1.0".into()),
    }
}

impl RandomSample {
    fn passing(&self) -> String {
        UFixed::<28>(self.passing.load(Relaxed)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn the_share_matches_the_probability() {
        for element in
            ["RandomSample(0.75)", "RandomSample(SAMPLE 0.75)", "RandomSample(DROP 0.25)"]
        {
            let mut rig = Rig::new(element, 1, 2).unwrap();
            let out = rig.push(0, &["a"; 4000]);
            // The standard deviation is 27.
            assert!((850..1150).contains(&out[1].len()), "{}", out[1].len());
            assert_eq!(rig.read("drops").unwrap(), out[1].len().to_string());
            assert_eq!(rig.read("config").unwrap(), "SAMPLE 0.75, ACTIVE true");
        }
        let mut rig = Rig::new("RandomSample(0)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"; 9])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::Limited, 9)]);
        rig.write("active", "false").unwrap();
        assert_eq!(rig.push(0, &["a"; 9])[0].len(), 9);
    }

    #[test]
    fn refuses_invalid_probabilities() {
        for wrong in ["", "1.1", "DROP 2", "SAMPLE 0.1, DROP 0.9"] {
            assert!(Rig::new(&format!("RandomSample({wrong})"), 1, 1).is_err(), "{wrong}");
        }
        let mut rig = Rig::new("RandomSample(1)", 1, 1).unwrap();
        rig.write("drop_prob", "0.125").unwrap();
        assert_eq!(rig.read("sampling_prob").unwrap(), "0.875");
        assert!(rig.write("sampling_prob", "2").is_err());
    }
}
