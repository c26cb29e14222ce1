//! SimpleRoundRobinSched - pulls one packet from each input in turn, like RoundRobinSched
//!
//! # Synopsis
//! `SimpleRoundRobinSched`
//!
//! # Description
//! Works like RoundRobinSched without MAX: starts with the input after the one that gave the last packet, and tries the
//! following ones until one gives a packet.
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
//! s :: SimpleRoundRobinSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinSched, StrideSched

use millrace_core::{Class, register};

use super::round_robin_sched::{InTurn, Order};

/// The class's order; its manual is at the top of the file.
pub struct SimpleRoundRobin;

/// The element.
pub type SimpleRoundRobinSched = InTurn<SimpleRoundRobin>;

register!(SimpleRoundRobinSched, "simple_round_robin_sched.rs");

impl Order for SimpleRoundRobin {
    const CLASS: Class = Class::new("SimpleRoundRobinSched", "1-/1", "l/l");
    const GOES_ROUND: bool = true;
}
