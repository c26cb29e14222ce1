//! The parts, and what threads do to them.

pub(crate) mod biased;
pub(crate) mod drains;
pub(crate) mod flows;
pub(crate) mod mappings;
pub(crate) mod moves;
pub(crate) mod published;
pub(crate) mod rings;
mod threads;
pub(crate) mod wakes;

// What these files name for the modules beside them is named for the scenarios here.
#[path = "../../../core/src/run/drained.rs"]
mod drained;
#[path = "../../../core/src/phase.rs"]
#[allow(dead_code, reason = "the scenarios do not use all of it")]
mod phase;
#[path = "../../../core/src/run/roster.rs"]
mod roster;
