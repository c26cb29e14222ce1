//! SpinlockAcquire - has no effect: elements are thread-safe by themselves
//!
//! # Synopsis
//! `SpinlockAcquire(LOCK)`
//!
//! # Description
//! Forwards packets unchanged. In Click, this class acquires a lock that a SpinlockRelease further on releases, because
//! most elements are not thread-safe. Here all elements are (see PathSpinlock), so no lock is taken; and a packet that is
//! dropped on the way cannot leave one locked. `millrace check` mentions each such element.
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
//! SpinlockRelease, SpinlockInfo, PathSpinlock

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use super::spinlock_info;

/// The element; its manual is at the top of the file.
pub struct SpinlockAcquire;

register!(SpinlockAcquire, "spinlock_acquire.rs");

impl Element for SpinlockAcquire {
    const CLASS: Class = Class::new("SpinlockAcquire", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.advise((), "SpinlockAcquire has no effect: all elements are thread-safe");
        let lock = setup.args.mandatory("LOCK");
        spinlock_info::expect(&mut setup.args, Some(lock));
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for SpinlockAcquire {
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
        assert!(Rig::new("SpinlockAcquire", 1, 1).is_err());
        assert!(Rig::new("SpinlockAcquire(other)", 1, 1).is_err());
    }
}
