//! SpinlockInfo - declares names of locks
//!
//! # Synopsis
//! `SpinlockInfo(LOCK, ...)`
//!
//! # Description
//! Declares the names that SpinlockAcquire, SpinlockRelease and PathSpinlock use, for its compound element and those
//! inside it. No lock is taken, because all elements are thread-safe; but a wrong name is still found.
//!
//! # Arguments
//! - LOCK: a name. Any number of them.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! SpinlockInfo(table, log);
//! InfiniteSource(LIMIT 10) -> PathSpinlock(log) -> Discard;
//! ```
//!
//! # See also
//! SpinlockAcquire, SpinlockRelease, PathSpinlock

use millrace_core::args::Word;
use millrace_core::names::{NameTable, NumberKind};
use millrace_core::{Args, Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct SpinlockInfo;

register!(SpinlockInfo, "spinlock_info.rs");

impl Element for SpinlockInfo {
    const CLASS: Class =
        Class::new("SpinlockInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let prefix = setup.args.scope().prefix().to_owned();
        let mut names = NameTable::new();
        for argument in setup.args.rest() {
            match argument.is_one_word() {
                true => names.define_number(NumberKind::Lock, &prefix, argument.as_str(), 0),
                false => setup.args.error(&argument, "expected one LOCK name per argument"),
            }
        }
        setup.args.complete()?;
        setup.define(names);
        Ok(Self)
    }
}

/// Reports an error if a SpinlockInfo does not declare this lock.
pub(super) fn expect(args: &mut Args<'_>, lock: Option<Word>) {
    let Some(lock) = lock else { return };
    if args.scope().number_named(NumberKind::Lock, lock.as_str()).is_none() {
        let message = format!("unknown lock ‘{}’", lock.as_str());
        args.error_with_help("LOCK", message, "declare it: SpinlockInfo(NAME, ...)");
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn takes_names() {
        assert!(Rig::new("SpinlockInfo(a, b)", 0, 0).is_ok());
        assert!(Rig::new("SpinlockInfo(a b)", 0, 0).is_err());
    }
}
