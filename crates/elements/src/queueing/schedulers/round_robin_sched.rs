//! RoundRobinSched - pulls from its inputs in turn
//!
//! # Synopsis
//! `RoundRobinSched`
//!
//! # Description
//! Asks the input after the one that gave the last packet, then the next ones, until one gives a packet.
//! Inputs that have packets so give one in turn. Who pulls rests while all of them are empty.
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
//! s :: RoundRobinSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use millrace_core::{Class, register};

use super::turns::{InTurn, Order};

/// What distinguishes the class; its manual is at the top of the file.
pub struct RoundRobin;

/// The element.
pub type RoundRobinSched = InTurn<RoundRobin>;

register!(RoundRobinSched, "round_robin_sched.rs");

impl Order for RoundRobin {
    const CLASS: Class = Class::new("RoundRobinSched", "1-/1", "l/l");
    const GOES_ROUND: bool = true;
}
