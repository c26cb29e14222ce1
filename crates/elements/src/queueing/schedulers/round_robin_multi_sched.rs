//! RoundRobinMultiSched - pulls several packets from each input in turn (round robin)
//!
//! # Synopsis
//! `RoundRobinMultiSched([N, MAX])`
//!
//! # Description
//! Pulls from one input until it has given N packets in a row or has none, then moves on to the next. Its puller sleeps
//! while all inputs are empty. RRMultiSched is another name for this element.
//!
//! # Arguments
//! - N: packets that an input gives per turn, at least 1. Positional, default 1.
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
//! s :: RoundRobinMultiSched(4) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinSched, PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use millrace_core::{Args, Class, register};

use super::round_robin_sched::{InTurn, Order, asked};

/// The class's order; its manual is at the top of the file.
pub struct RoundRobinMulti;

/// The element.
pub type RoundRobinMultiSched = InTurn<RoundRobinMulti>;

register!(RoundRobinMultiSched, "round_robin_multi_sched.rs");

impl Order for RoundRobinMulti {
    const CLASS: Class =
        Class::new("RoundRobinMultiSched", "1-/1", "l/l").aliases(&["RRMultiSched"]);
    const GOES_ROUND: bool = true;

    fn configure(args: &mut Args<'_>, inputs: usize) -> (usize, usize) {
        let run: u32 = args.positional("N", 1);
        if run == 0 {
            args.error("N", "N must be positive");
        }
        (run as usize, asked(args, inputs))
    }
}
