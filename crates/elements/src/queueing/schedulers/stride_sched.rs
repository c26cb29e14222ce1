//! StrideSched - pulls packets from its inputs in proportion to their tickets (stride scheduling)
//!
//! # Synopsis
//! `StrideSched(TICKETS0, ..., TICKETSN)`
//!
//! # Description
//! Stride scheduling (Waldspurger and Weihl, 1995): each input has a number of tickets. Inputs that have packets give
//! them in proportion to their tickets. An input without tickets is never pulled from.
//!
//! # Arguments
//! - TICKETS0, ..., TICKETSN: one number for each input; above 32768 it is reduced to 32768, with a warning.
//!   Positional, mandatory.
//!
//! # Ports
//! One or more pull inputs, one pull output.
//!
//! # Handlers
//! - `tickets0`, ..., `ticketsN` (read, write): the tickets of an input.
//! - `config` (read): the tickets of all inputs.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: StrideSched(3, 1) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 30) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 30) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinSched, PrioSched, DRRSched, StrideSwitch

use std::sync::MutexGuard;

use millrace_core::element::ANY_HANDLER;
use millrace_core::{
    Batch, Class, Context, Element, Failed, HandlerError, Handlers, Lock, Setup, register,
};

use super::inputs::lane::Lane;

/// The element; its manual is at the top of the file.
pub struct StrideSched(Lock<Inputs>);

/// The working memory of a pull, kept for the next one.
#[derive(Default)]
pub struct Scratch {
    lanes: Vec<Lane>,
    /// The turns to come, if every input that is tried has a packet.
    plan: Inputs,
    /// How many packets each input gives in them.
    wanted: Vec<usize>,
}

#[derive(Default)]
struct Inputs {
    each: Vec<Input>,
    /// Those with tickets, in the order in which they are tried.
    row: Vec<usize>,
    /// Those tried in one turn.
    asked: Vec<usize>,
}

#[derive(Clone, Copy, Default)]
struct Input {
    tickets: u32,
    stride: u32,
    /// When its turn comes, relative to the others; wraps around.
    pass: u32,
}

/// The stride of an input with one ticket.
const LONGEST: u32 = 1 << 16;
const MOST_TICKETS: u32 = 1 << 15;
/// How many turns to plan at first: there may be no packets for more.
const FIRST_TURNS: usize = 8;

register!(StrideSched, "stride_sched.rs");

impl Element for StrideSched {
    const CLASS: Class = Class::new("StrideSched", "1-/1", "l/l");
    type Local = Scratch;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let count = setup.inputs();
        if setup.args.len() != count {
            let message = format!("need {count} arguments, one per input port");
            let help = format!("the numbers of tickets given are {}", setup.args.len());
            setup.args.error_with_help("TICKETS0", message, help);
        }
        let mut inputs = Inputs::default();
        for at in 0..count.min(setup.args.len()) {
            let name = format!("TICKETS{at}");
            let tickets: i64 = setup.args.mandatory(&name);
            if tickets < 0 {
                setup.args.error(
                    name.as_str(),
                    format!("argument {at} (number of tickets) must be >= 0"),
                );
            } else if tickets > MOST_TICKETS.into() {
                let message = format!("input {at}'s tickets reduced to {MOST_TICKETS}");
                setup.args.warn(name.as_str(), message);
            }
            let tickets = u32::try_from(tickets.max(0)).unwrap_or(MOST_TICKETS).min(MOST_TICKETS);
            let mut input = Input::default();
            input.set_tickets(tickets);
            input.pass = input.stride;
            inputs.each.push(input);
        }
        setup.args.complete()?;
        // Inputs with equal turns are in the order of the ports.
        let Inputs { each, row, .. } = &mut inputs;
        row.extend((0..each.len()).filter(|at| each.get(*at).is_some_and(|own| own.tickets > 0)));
        row.sort_by_key(|at| each.get(*at).map(|own| own.pass));
        Ok(Self(Lock::new(inputs)))
    }

    fn pull(
        &self,
        cx: &mut Context,
        scratch: &mut Scratch,
        _port: usize,
        max: usize,
        batch: &mut Batch,
    ) {
        let mut some = cx.take_batch();
        let most = max.min(batch.room());
        Lane::begin(&mut scratch.lanes, self.inputs().each.len());
        let mut turns = FIRST_TURNS;
        while batch.len() < most {
            if !self.plan(scratch, turns.min(most - batch.len())) {
                // No input has packets.
                self.inputs().turn(|_| false);
                break;
            }
            // The lock is not held meanwhile: handlers of this element may be called.
            let wanted = scratch.lanes.iter_mut().zip(&scratch.wanted);
            wanted
                .enumerate()
                .for_each(|(input, (lane, wanted))| lane.fill(cx, input, *wanted, &mut some));
            self.give(&mut scratch.lanes, batch);
            turns *= 4;
        }
        cx.give_batch(some);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("config", |sched, _| {
            let tickets: Vec<String> =
                sched.inputs().each.iter().map(|one| one.tickets.to_string()).collect();
            tickets.join(", ")
        });
        handlers.try_read(ANY_HANDLER, |sched, call| {
            let inputs = sched.inputs();
            let input = inputs.named(call.handler())?;
            Ok(inputs.each.get(input).map_or(0, |input| input.tickets))
        });
        handlers.write(ANY_HANDLER, |sched, call| {
            let mut inputs = sched.inputs();
            let input = inputs.named(call.handler())?;
            let tickets: i64 = call.parse().map_err(|_| "tickets value must be integer")?;
            if tickets < 0 {
                return Err("number of tickets must be >= 0".into());
            }
            inputs.set_tickets(
                input,
                u32::try_from(tickets).unwrap_or(MOST_TICKETS).min(MOST_TICKETS),
            );
            Ok(())
        });
    }
}

impl StrideSched {
    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        self.0.lock()
    }

    /// Computes how many packets each input gives in the next `turns` turns, assuming that every input not yet found
    /// empty has enough of them. Returns false if all inputs are empty.
    ///
    /// If an input turns out to have fewer packets, the others still follow one another as they would have, because the
    /// turns of one input do not depend on those of another. So all packets that are pulled have room in the batch.
    fn plan(&self, scratch: &mut Scratch, turns: usize) -> bool {
        let Scratch { lanes, plan, wanted } = scratch;
        plan.copy(&self.inputs());
        wanted.clear();
        wanted.resize(lanes.len(), 0);
        (0..turns).all(|_| {
            plan.turn(|input| {
                let is_in = lanes.get(input).is_some_and(|lane| !lane.is_out());
                wanted.get_mut(input).filter(|_| is_in).map(|wanted| *wanted += 1).is_some()
            })
        })
    }

    /// Gives the packets pulled so far, turn by turn.
    fn give(&self, lanes: &mut [Lane], batch: &mut Batch) {
        let mut inputs = self.inputs();
        let mut left: usize = lanes.iter().map(Lane::len).sum();
        while left > 0 {
            let asked =
                |input: usize| lanes.get_mut(input).is_some_and(|lane| lane.give(1, batch) > 0);
            if !inputs.turn(asked) {
                // A handler has set an input's tickets to 0 since it was pulled from.
                for lane in lanes {
                    lane.give(left, batch);
                }
                return;
            }
            left -= 1;
        }
    }
}

impl Inputs {
    /// Copies the turns of `others`.
    fn copy(&mut self, others: &Self) {
        self.each.clone_from(&others.each);
        self.row.clone_from(&others.row);
    }

    /// Tries one input after another until one has a packet; the inputs tried then wait for their next turn. Returns
    /// whether one had a packet.
    fn turn(&mut self, has_packet: impl FnMut(usize) -> bool) -> bool {
        let found = self.row.iter().copied().position(has_packet);
        let count = found.map_or(self.row.len(), |at| at + 1);
        self.stride(count);
        found.is_some()
    }

    /// The input that a handler name refers to: `tickets2`.
    fn named(&self, handler: &str) -> Result<usize, HandlerError> {
        let number = handler.strip_prefix("tickets").and_then(|number| number.parse().ok());
        number
            .filter(|&number| number < self.each.len())
            .ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
    }

    /// Inserts an input into the row, before those whose turn comes at the same time or later.
    fn insert(&mut self, input: usize) {
        let Some(own) = self.each.get(input).copied().filter(|own| own.tickets > 0) else { return };
        let earlier =
            |other: &usize| self.each.get(*other).is_some_and(|other| own.comes_after(other));
        let at = self.row.partition_point(earlier);
        self.row.insert(at, input);
    }

    /// Makes the first `count` inputs of the row, which were tried, wait for their next turn.
    fn stride(&mut self, count: usize) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.extend(self.row.drain(..count.min(self.row.len())));
        for input in asked.drain(..) {
            if let Some(own) = self.each.get_mut(input) {
                own.pass = own.pass.wrapping_add(own.stride);
            }
            self.insert(input);
        }
        self.asked = asked;
    }

    fn set_tickets(&mut self, input: usize, tickets: u32) {
        let first =
            self.row.first().and_then(|&first| self.each.get(first)).map(|first| first.pass);
        let Some(own) = self.each.get_mut(input) else { return };
        let before = own.tickets;
        own.set_tickets(tickets);
        if tickets == 0 {
            self.row.retain(|&other| other != input);
        } else if before == 0 {
            own.pass = first.map_or(0, |pass| pass.wrapping_add(own.stride));
            self.insert(input);
        }
    }
}

impl Input {
    fn set_tickets(&mut self, tickets: u32) {
        self.tickets = tickets;
        self.stride = LONGEST.checked_div(tickets).unwrap_or(0);
    }

    fn comes_after(self, other: &Self) -> bool {
        self.pass.wrapping_sub(other.pass).cast_signed() > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Inputs that always have packets get about their shares.
        #[test]
        fn shares_are_proportional_to_tickets(tickets in prop::collection::vec(1u32..50, 1..6)) {
            let mut inputs = Inputs::default();
            for &number in &tickets {
                let mut input = Input::default();
                input.set_tickets(number);
                input.pass = input.stride;
                inputs.each.push(input);
            }
            (0..tickets.len()).rev().for_each(|input| inputs.insert(input));
            let mut turns = vec![0u32; tickets.len()];
            let all: u32 = tickets.iter().sum();
            for _ in 0..20 * all {
                let input = inputs.row[0];
                turns[input] += 1;
                inputs.stride(1);
            }
            for (turns, tickets) in turns.iter().zip(&tickets) {
                prop_assert!(turns.abs_diff(20 * tickets) <= 2 + tickets / 5, "{turns} for {tickets}");
            }
        }
    }
}
