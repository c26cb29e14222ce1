//! RoundRobinSched - pulls from its inputs in turn
//!
//! # Synopsis
//! `RoundRobinSched([MAX])`
//!
//! # Description
//! Asks the input after the one that gave the last packet, then the next ones, until one gives a packet.
//! Inputs that have packets so give one in turn. Who pulls rests while all of them are empty.
//!
//! # Arguments
//! - MAX: the most inputs that are asked for a packet, as in FastClick. Positional; all by default.
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
//! RoundRobinMultiSched, PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use millrace_core::{Args, Class, register};

use super::turns::{InTurn, Order, asked};

/// What distinguishes the class; its manual is at the top of the file.
pub struct RoundRobin;

/// The element.
pub type RoundRobinSched = InTurn<RoundRobin>;

register!(RoundRobinSched, "round_robin_sched.rs");

impl Order for RoundRobin {
    const CLASS: Class = Class::new("RoundRobinSched", "1-/1", "l/l");
    const GOES_ROUND: bool = true;

    fn configure(args: &mut Args<'_>, inputs: usize) -> (usize, usize) {
        (1, asked(args, inputs))
    }
}
