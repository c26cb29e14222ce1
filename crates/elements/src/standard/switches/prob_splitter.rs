//! ProbSplitter - sends packets to output 1 with a given probability
//!
//! # Synopsis
//! `ProbSplitter(P)`
//!
//! # Description
//! Sends each packet to output 1 with probability P, and to output 0 otherwise.
//!
//! # Arguments
//! - P: probability, 0 to 1. Positional, mandatory.
//!
//! # Ports
//! One push input, two push outputs.
//!
//! # Handlers
//! - `prob` (read, write): the P argument; reads return it in units of 1/65536, writes expect a fraction, 0 to 1.
//! - `config` (read, write): the arguments; all may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: ProbSplitter(0.1);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! RandomSample, RandomSwitch

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::UFixed;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct ProbSplitter {
    /// In units of 2^-16.
    probability: AtomicU32,
}

register!(ProbSplitter, "prob_splitter.rs");

/// Probability 1.
const ONE: u32 = 1 << 16;

fn probability(UFixed(p): UFixed<16>) -> Result<u32, &'static str> {
    if p <= ONE { Ok(p) } else { Err("split probability must be between 0 and 1") }
}

impl Element for ProbSplitter {
    const CLASS: Class = Class::new("ProbSplitter", "1/2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let p = setup.args.mandatory("P");
        setup.args.complete()?;
        match probability(p) {
            Ok(p) => Ok(Self { probability: p.into() }),
            Err(wrong) => {
                setup.args.error("P", wrong);
                Err(Failed)
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|splitter, new| {
            splitter.probability.store(new.probability.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("prob", |splitter, _| splitter.probability.load(Relaxed));
        handlers.write("prob", |splitter, call| {
            let p = call.parse().map_err(|_| "not a fraction")?;
            splitter.probability.store(probability(p)?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for ProbSplitter {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, at: &mut Moment) -> Way {
        let p = self.probability.load(Relaxed);
        Way::output(u16::from(at.random().u32(..ONE) < p))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_share_matches_the_probability() {
        let mut rig = Rig::new("ProbSplitter(0.25)", 1, 2).unwrap();
        let out = rig.push(0, &["a"; 4000]);
        // The standard deviation is 27.
        assert!((850..1150).contains(&out[1].len()), "{}", out[1].len());
        assert_eq!(rig.read("prob").unwrap(), "16384");
        rig.write("prob", "1").unwrap();
        assert_eq!(rig.push(0, &["a"; 100])[1].len(), 100);
        assert!(rig.write("prob", "1.5").is_err());
        assert!(Rig::new("ProbSplitter(2)", 1, 2).is_err());
    }
}
