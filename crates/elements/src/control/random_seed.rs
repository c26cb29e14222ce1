//! RandomSeed - seeds what is random
//!
//! # Synopsis
//! `RandomSeed([SEED])`
//!
//! # Description
//! What is random in the router, from elements that choose at random to the handler `random` of
//! Script, is the same in each run with the same SEED.
//!
//! # Arguments
//! - SEED: an integer. Default: none, and each run is different.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `seed` (write): nothing before the router starts depends on it any more; the handler `random` of
//!   scripts begins anew with this number.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RandomSeed(17);
//! Script(print $(random 1 6), stop);
//! ```
//!
//! # See also
//! Script

use millrace_core::{Class, Element, Failed, Handlers, Setup, register};

/// The element; its manual is at the top of the file.
pub struct RandomSeed;

register!(RandomSeed, "random_seed.rs");

impl Element for RandomSeed {
    const CLASS: Class = Class::new("RandomSeed", "0/0", "a/a").phase(Class::PHASE_INFO);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let seed: Option<u32> = setup.args.optional("SEED");
        setup.args.complete()?;
        if let Some(seed) = seed {
            setup.seed_random(seed.into());
        }
        Ok(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("seed", |_, call| {
            let seed: u32 = call.parse()?;
            call.router().random().seed(seed.into());
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn a_seed_is_a_number() {
        let mut rig = Rig::new("RandomSeed(5)", 0, 0).unwrap();
        let random = |rig: &Rig| rig.router().random().u64(..);
        let first = random(&rig);
        rig.write("seed", "5").unwrap();
        assert_eq!(random(&rig), first);
        assert!(Rig::new("RandomSeed(x)", 0, 0).is_err());
    }
}
