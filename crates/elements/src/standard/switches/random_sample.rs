//! RandomSample - lets a share of packets, chosen at random, pass
//!
//! # Synopsis
//! `RandomSample(P [, keywords SAMPLE, DROP, ACTIVE])`
//!
//! # Description
//! Lets each packet pass with probability P. The others leave by output 1, or are dropped when it is
//! not connected. While it is not ACTIVE, all packets pass.
//!
//! # Arguments
//! - P: probability of passing, 0 to 1. Positional; or give SAMPLE or DROP.
//! - SAMPLE: the same by another name.
//! - DROP: probability of not passing.
//! - ACTIVE: whether packets are sampled. Default true.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional.
//!
//! # Handlers
//! - `sampling_prob` (read, write): probability of passing.
//! - `drop_prob` (read, write): probability of not passing.
//! - `active` (read, write): as the argument.
//! - `drops` (read): packets that did not pass.
//! - `config` (read): SAMPLE and ACTIVE as they are now.
//!
//! # Drops
//! - limited: the packet was not chosen, and output 1 is not connected.
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
    /// Probability of passing, in units of 2^-28.
    passing: AtomicU32,
    active: AtomicBool,
    drops: PerThread<Count>,
}

register!(RandomSample, "random_sample.rs");

type Probability = UFixed<28>;

/// Certainty.
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

/// A probability that a handler was given.
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
    fn the_share_is_as_it_should_be() {
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
    fn refuses_what_is_no_probability() {
        for wrong in ["", "1.1", "DROP 2", "SAMPLE 0.1, DROP 0.9"] {
            assert!(Rig::new(&format!("RandomSample({wrong})"), 1, 1).is_err(), "{wrong}");
        }
        let mut rig = Rig::new("RandomSample(1)", 1, 1).unwrap();
        rig.write("drop_prob", "0.125").unwrap();
        assert_eq!(rig.read("sampling_prob").unwrap(), "0.875");
        assert!(rig.write("sampling_prob", "2").is_err());
    }
}
