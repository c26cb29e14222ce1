//! Reasons to drop packets for that a crate adds.

use millrace_core::drops::OwnReason;
use millrace_core::{Reason, drop_reason};

drop_reason! {
    /// For the tests.
    FIRST = "first of its own"
}

drop_reason! {
    /// For the tests.
    pub SECOND = "second of its own"
}

/// Not registered.
static STRANGER: OwnReason = OwnReason::new("stranger");

#[test]
fn reasons_of_ones_own_have_their_names_and_places() {
    let (first, second) = (FIRST.reason(), SECOND.reason());
    assert_ne!(first, second);
    assert_eq!((first.name(), second.name()), ("first of its own", "second of its own"));
    assert_eq!(FIRST.reason(), first, "also the second time");
    assert!(!Reason::BUILT_IN.contains(&first) && Reason::ALL.contains(&first));
    assert_eq!(Reason::Own15.name(), "not registered");
    assert_eq!(Reason::Filtered.name(), "filtered");
    assert_eq!(STRANGER.reason(), Reason::Discarded);
}
