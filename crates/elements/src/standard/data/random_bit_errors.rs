//! RandomBitErrors - introduces random bit errors into packets
//!
//! # Synopsis
//! `RandomBitErrors(P [, KIND, ACTIVE])`
//!
//! # Description
//! Changes each bit of each packet with probability P. KIND decides whether the bit is inverted, set to 1 or
//! cleared to 0.
//!
//! # Arguments
//! - P: probability of an error, 0 to 1. Positional, mandatory.
//! - KIND: `flip`, `set` or `clear`. Positional, default `flip`.
//! - ACTIVE: whether to change packets. Positional, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `p_bit_error` (read, write): the P argument.
//! - `error_kind` (read, write): the KIND argument.
//! - `active` (read, write): the ACTIVE argument.
//! - `config` (read, write): the arguments, which may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> RandomBitErrors(0.001) -> Discard;
//! ```
//!
//! # See also
//! RandomSample

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use millrace_core::args::UFixed;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct RandomBitErrors {
    /// In units of 2^-28.
    probability: AtomicU32,
    /// Index into [`KINDS`].
    kind: AtomicU8,
    active: AtomicBool,
}

register!(RandomBitErrors, "random_bit_errors.rs");

const KINDS: [&str; 3] = ["clear", "set", "flip"];

/// Probability 1.
const ONE: u32 = 1 << 28;

fn kind_number(word: &str) -> Result<u8, String> {
    let known = KINDS.iter().position(|kind| *kind == word);
    known
        .and_then(|at| u8::try_from(at).ok())
        .ok_or_else(|| format!("bad action ‘{word}’ (must be ‘set’, ‘clear’, or ‘flip’)"))
}

fn probability(UFixed(p): UFixed<28>) -> Result<u32, &'static str> {
    if p <= ONE { Ok(p) } else { Err("bit error probability must be between 0 and 1") }
}

impl Element for RandomBitErrors {
    const CLASS: Class = Class::new("RandomBitErrors", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let p = setup.args.mandatory("P");
        let kind: String = setup.args.positional("KIND", "flip".to_owned());
        let active: bool = setup.args.positional("ACTIVE", true);
        setup.args.complete()?;
        let kind = kind_number(&kind).map_err(|wrong| setup.args.error("KIND", wrong));
        let p = probability(p).map_err(|wrong| setup.args.error("P", wrong));
        let (Ok(kind), Ok(p)) = (kind, p) else { return Err(Failed) };
        if p == 0 {
            setup.args.warn("P", "zero bit error probability (underflow?)");
        }
        Ok(Self { probability: p.into(), kind: kind.into(), active: active.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|errors, new| {
            errors.probability.store(new.probability.into_inner(), Relaxed);
            errors.kind.store(new.kind.into_inner(), Relaxed);
            errors.active.store(new.active.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("p_bit_error", |errors, _| {
            UFixed::<28>(errors.probability.load(Relaxed)).to_string()
        });
        handlers.write("p_bit_error", |errors, call| {
            errors.probability.store(probability(call.parse()?)?, Relaxed);
            Ok(())
        });
        handlers.read("error_kind", |errors, _| {
            KINDS.get(usize::from(errors.kind.load(Relaxed))).copied().unwrap_or("??")
        });
        handlers.write("error_kind", |errors, call| {
            errors.kind.store(kind_number(&call.text())?, Relaxed);
            Ok(())
        });
        handlers.read("active", |errors, _| errors.active.load(Relaxed));
        handlers.write("active", |errors, call| {
            errors.active.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for RandomBitErrors {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let p = self.probability.load(Relaxed);
        if p == 0 || !self.active.load(Relaxed) {
            return Way::ON;
        }
        let kind = self.kind.load(Relaxed);
        let mut bit = self.gap(at, p);
        while let Some(byte) = packet.data().get(bit / 8).copied() {
            let mask = 1 << (bit % 8);
            let changed = match kind {
                0 => byte & !mask,
                1 => byte | mask,
                _ => byte ^ mask,
            };
            if let Some(place) = packet.data_mut().get_mut(bit / 8) {
                *place = changed;
            }
            bit = bit.saturating_add(1).saturating_add(self.gap(at, p));
        }
        Way::ON
    }
}

impl RandomBitErrors {
    /// The number of unchanged bits before the next error.
    fn gap(&self, at: &mut Moment, p: u32) -> usize {
        if p >= ONE {
            return 0;
        }
        let good = 1.0 - f64::from(p) / f64::from(ONE);
        // `f64` returns a number below 1, so the logarithm is finite. The cast saturates.
        ((1.0 - at.random().f64()).ln() / good.ln()) as usize
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn probability_1_changes_every_bit() {
        for (kind, expected) in [("flip", 0x5a), ("set", 0xff), ("clear", 0)] {
            let mut rig = Rig::new(&format!("RandomBitErrors(1, {kind})"), 1, 1).unwrap();
            assert_eq!(rig.push(0, &[[0xa5; 9]])[0], [[expected; 9]]);
            rig.write("active", "false").unwrap();
            assert_eq!(rig.push(0, &[[0xa5; 9]])[0], [[0xa5; 9]]);
        }
    }

    #[test]
    fn the_error_rate_matches_the_probability() {
        let mut rig = Rig::new("RandomBitErrors(0.1)", 1, 1).unwrap();
        let out = rig.push(0, &[[0; 1000]; 100]);
        let errors: u32 = out[0].iter().flatten().map(|byte| byte.count_ones()).sum();
        // 800,000 bits: the standard deviation is 268.
        assert!((78_000..82_000).contains(&errors), "{errors}");
        assert_eq!(rig.read("p_bit_error").unwrap(), "0.1");
    }

    #[test]
    fn refuses_invalid_probabilities_and_kinds() {
        for wrong in ["1.1", "-1", "0.5, toggle", ""] {
            assert!(Rig::new(&format!("RandomBitErrors({wrong})"), 1, 1).is_err(), "{wrong}");
        }
        let mut rig = Rig::new("RandomBitErrors(0)", 1, 1).unwrap();
        assert!(rig.write("p_bit_error", "2").is_err());
        rig.write("error_kind", "set").unwrap();
        assert_eq!(rig.read("error_kind").unwrap(), "set");
        assert!(rig.write("error_kind", "toggle").is_err());
        rig.write("config", "1, clear").unwrap();
        assert_eq!(rig.push(0, &[[0xa5; 9]])[0], [[0; 9]]);
    }
}
