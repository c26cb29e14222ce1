//! RoundRobinSched - pulls one packet from each input in turn (round robin)
//!
//! # Synopsis
//! `RoundRobinSched([MAX])`
//!
//! # Description
//! Starts with the input after the one that gave the last packet, and tries the following ones until one gives a
//! packet. Inputs that have packets thus give one each in turn. Its puller sleeps while all inputs are empty.
//!
//! # Arguments
//! - MAX: maximum number of inputs to try for a packet, as in FastClick. Positional; default: all.
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

/// The class's order; its manual is at the top of the file.
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
