//! SimpleRoundRobinSched - pulls from its inputs in turn, whether they tell of packets or not
//!
//! # Synopsis
//! `SimpleRoundRobinSched`
//!
//! # Description
//! Asks the input after the one that gave the last packet, then the next ones, until one gives a packet.
//! Inputs that have packets so give one in turn.
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

use super::turns::{InTurn, Order};

/// What distinguishes the class; its manual is at the top of the file.
pub struct SimpleRoundRobin;

/// The element.
pub type SimpleRoundRobinSched = InTurn<SimpleRoundRobin>;

register!(SimpleRoundRobinSched, "simple_round_robin_sched.rs");

impl Order for SimpleRoundRobin {
    const CLASS: Class = Class::new("SimpleRoundRobinSched", "1-/1", "l/l");
    const GOES_ROUND: bool = true;
}
