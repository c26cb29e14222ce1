//! The list of the parts.

use crate::part::Part;
use crate::parts::{biased, drains, flows, mappings, moves, published, rings, wakes};

/// All parts.
pub static PARTS: &[&Part] = &[
    &biased::PART,
    &published::PART,
    &wakes::PART,
    &moves::PART,
    &rings::PART,
    &drains::PART,
    &flows::PART,
    &mappings::PART,
];
