//! Rules that ask for the state of connections want an element upstream that writes it.

use millrace_core::Init;

use crate::capability::ConnectionStates;
use crate::classify::program::FilterProgram;
use crate::upstream::offered_before;

/// Warns if a program asks for the state of connections and no element upstream of the classifier writes it.
pub(crate) fn look_for_tracker(init: &mut Init<'_>, program: &FilterProgram) {
    if !program.looks_at_state() || !offered_before::<dyn ConnectionStates>(init).is_empty() {
        return;
    }
    init.warn(
        "rules ask for the state of connections, but there is no ConnectionTracker upstream: \
         every packet is ‘untracked’",
    );
}
