//! RandomSeed - seeds the random number generators
//!
//! # Synopsis
//! `RandomSeed([SEED])`
//!
//! # Description
//! With the same SEED, everything random in the router is the same in each run, from elements that choose at random to
//! the `random` handler of Script. This handler, the ports that rewriters choose and the flows of FastUDPFlows are those
//! that Click chooses after the same SEED; what is decided for each packet, as by RandomSample, is not.
//!
//! # Arguments
//! - SEED: an integer. Default: none; each run is different.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `seed` (write): restarts the generator behind the `random` handler of scripts with this number. It does not change
//!   choices made before the router started.
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
//! Script, FastUDPFlows, IPRewriter

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
        let random = |rig: &Rig| rig.router().random().draw();
        let first = random(&rig);
        rig.write("seed", "5").unwrap();
        assert_eq!(random(&rig), first);
        assert!(Rig::new("RandomSeed(x)", 0, 0).is_err());
    }
}
