//! RRMultiSched - pulls several packets from each of its inputs in turn
//!
//! # Synopsis
//! `RRMultiSched([N, MAX])`
//!
//! # Description
//! Pulls N packets from an input, then N from the next one. An input that has none loses its turn. At most
//! MAX inputs are asked for a packet.
//!
//! # Arguments
//! - N: packets in a row from one input, at least 1. Positional, default 1.
//! - MAX: how many inputs are asked before giving up. Positional, default all.
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
//! s :: RRMultiSched(2) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinSched, StrideSched, PrioSched

use std::sync::{Mutex, PoisonError};

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct RrMultiSched {
    inputs: usize,
    in_a_row: usize,
    asked: usize,
    /// The input whose turn it is, and how many packets it has given.
    turn: Mutex<(usize, usize)>,
}

register!(RrMultiSched, "rr_multi_sched.rs");

impl Element for RrMultiSched {
    const CLASS: Class = Class::new("RRMultiSched", "1-/1", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let in_a_row = setup.args.in_range("N", Kind::Positional, 1..=i32::MAX).unwrap_or(1);
        let asked: Option<u32> = setup.args.optional("MAX");
        setup.args.complete()?;
        let asked = asked.map_or(inputs, |asked| (asked as usize).min(inputs));
        let in_a_row = usize::try_from(in_a_row).unwrap_or(1);
        Ok(Self { inputs, in_a_row, asked, turn: Mutex::default() })
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let most = max.min(batch.room());
        let mut some = cx.take_batch();
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut input, mut given) = *turn;
        let mut in_vain = 0;
        while batch.len() < most && in_vain < self.asked {
            let wanted = (self.in_a_row - given).min(most - batch.len());
            let came = cx.pull(input, wanted, &mut some);
            batch.append(&mut some);
            given += came;
            if came < wanted {
                in_vain += 1;
            }
            if came > 0 {
                in_vain = usize::from(came < wanted);
            }
            if came < wanted || given >= self.in_a_row {
                input = (input + 1) % self.inputs.max(1);
                given = 0;
            }
        }
        *turn = (input, given);
        drop(turn);
        cx.give_batch(some);
    }
}
