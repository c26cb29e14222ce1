//! PrioSched - pulls from its inputs in strict priority order
//!
//! # Synopsis
//! `PrioSched`
//!
//! # Description
//! Tries input 0, then input 1, and so on, until one gives a packet. An input is served only when all inputs before it
//! have no packets. Its puller sleeps while all inputs are empty.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One or more pull inputs, one pull output.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: PrioSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! SimplePrioSched, RoundRobinSched, StrideSched, DRRSched

use millrace_core::{Class, register};

use super::round_robin_sched::{InTurn, Order};

/// The class's order; its manual is at the top of the file.
pub struct Priority;

/// The element.
pub type PrioSched = InTurn<Priority>;

register!(PrioSched, "prio_sched.rs");

impl Order for Priority {
    const CLASS: Class = Class::new("PrioSched", "1-/1", "l/l");
    const GOES_ROUND: bool = false;
}
