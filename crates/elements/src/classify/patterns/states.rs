//! Rules that ask for the state of connections want an element upstream that writes it.

use std::sync::Arc;

use crate::capability::ConnectionStates;
use crate::classify::program::FilterProgram;

/// The warning if a program asks for the state of connections, and no element upstream of the classifier writes it.
pub(crate) fn missing_tracker(
    program: &FilterProgram,
    upstream: impl FnOnce() -> Vec<(usize, Arc<dyn ConnectionStates>)>,
) -> Option<&'static str> {
    (program.looks_at_state() && upstream().is_empty()).then_some(
        "rules ask for the state of connections, but there is no ConnectionTracker upstream: \
         every packet is ‘untracked’",
    )
}
