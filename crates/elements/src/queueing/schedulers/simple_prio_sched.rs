//! SimplePrioSched - pulls from its inputs in strict priority order, like PrioSched
//!
//! # Synopsis
//! `SimplePrioSched`
//!
//! # Description
//! Works exactly like PrioSched: tries input 0, then input 1, and so on, until one gives a packet.
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
//! s :: SimplePrioSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! PrioSched, RoundRobinSched

use millrace_core::{Class, register};

use super::round_robin_sched::{InTurn, Order};

/// The class's order; its manual is at the top of the file.
pub struct SimplePriority;

/// The element.
pub type SimplePrioSched = InTurn<SimplePriority>;

register!(SimplePrioSched, "simple_prio_sched.rs");

impl Order for SimplePriority {
    const CLASS: Class = Class::new("SimplePrioSched", "1-/1", "l/l");
    const GOES_ROUND: bool = false;
}
