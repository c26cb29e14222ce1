//! PathSpinlock - has no effect: elements are thread-safe by themselves
//!
//! # Synopsis
//! `PathSpinlock([LOCK])`
//!
//! # Description
//! Forwards packets unchanged, from each input to the output with the same number. In Click, this class
//! lets one thread at a time process packets on the path behind it, because most elements are not thread-safe. Here
//! all elements are: each thread has its own state, and what they share they lock themselves. So no lock is
//! needed, and none is taken. `millrace check` mentions each such element.
//!
//! # Arguments
//! - LOCK: the lock's name in a SpinlockInfo, which must exist. Positional, optional.
//!
//! # Ports
//! One or more agnostic inputs, the same number of agnostic outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> PathSpinlock -> Discard;
//! ```
//!
//! # See also
//! SpinlockAcquire, SpinlockRelease, SpinlockInfo, Pipeliner

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

use super::spinlock_info;

/// The element; its manual is at the top of the file.
pub struct PathSpinlock;

register!(PathSpinlock, "path_spinlock.rs");

impl Element for PathSpinlock {
    const CLASS: Class = Class::new("PathSpinlock", "1-/=", "a/a").flow("#/#");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.advise((), "PathSpinlock has no effect: all elements are thread-safe");
        let lock = setup.args.optional("LOCK");
        spinlock_info::expect(&mut setup.args, lock);
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        cx.push_batch(port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn each_input_has_its_output() {
        let mut rig = Rig::new("PathSpinlock", 2, 2).unwrap();
        assert_eq!(rig.push(0, &["a", "b"]), [vec![b"a", b"b"], vec![]]);
        assert_eq!(rig.push(1, &["c"]), [vec![], vec![b"c"]]);
    }

    #[test]
    fn the_lock_must_have_been_declared() {
        assert!(Rig::new("PathSpinlock(other)", 1, 1).is_err());
    }
}
