//! SpinlockRelease - has no effect: elements are thread-safe by themselves
//!
//! # Synopsis
//! `SpinlockRelease(LOCK)`
//!
//! # Description
//! Forwards packets unchanged. In Click, this class releases the lock that a SpinlockAcquire acquired. Here all elements
//! are thread-safe (see PathSpinlock), so there is no lock. `millrace check` mentions each such element.
//!
//! # Arguments
//! - LOCK: the lock's name in a SpinlockInfo, which must exist. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! SpinlockInfo(table);
//! InfiniteSource(LIMIT 10) -> SpinlockAcquire(table) -> Counter -> SpinlockRelease(table) -> Discard;
//! ```
//!
//! # See also
//! SpinlockAcquire, SpinlockInfo, PathSpinlock

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use super::spinlock_info;

/// The element; its manual is at the top of the file.
pub struct SpinlockRelease;

register!(SpinlockRelease, "spinlock_release.rs");

impl Element for SpinlockRelease {
    const CLASS: Class = Class::new("SpinlockRelease", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.advise((), "SpinlockRelease has no effect: all elements are thread-safe");
        let lock = setup.args.mandatory("LOCK");
        spinlock_info::expect(&mut setup.args, Some(lock));
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for SpinlockRelease {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_lock_must_have_been_declared() {
        assert!(Rig::new("SpinlockRelease", 1, 1).is_err());
        assert!(Rig::new("SpinlockRelease(other)", 1, 1).is_err());
    }
}
