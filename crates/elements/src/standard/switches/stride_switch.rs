//! StrideSwitch - sends packets to its outputs in proportion to their tickets
//!
//! # Synopsis
//! `StrideSwitch(TICKETS0, ..., TICKETSN)`
//!
//! # Description
//! Stride scheduling (Waldspurger and Weihl, 1995): each output has a number of tickets, and gets as
//! many of the packets as its tickets' share says, as evenly as can be. An output without tickets
//! gets none.
//!
//! # Arguments
//! - TICKETS0, ..., TICKETSN: one number for each output, at most 32768. Positional, mandatory.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! - `tickets0`, ..., `ticketsN` (read, write): an output's tickets.
//! - `config` (read): all tickets.
//!
//! # Drops
//! - discarded: no output has tickets.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 40) -> s :: StrideSwitch(3, 1);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! RoundRobinSwitch, RandomSwitch, HashSwitch

use std::cmp::Reverse;

use millrace_core::element::ANY_HANDLER;
use millrace_core::{
    Class, Element, Failed, HandlerError, Handlers, Lock, Moment, PerPacket, Reason, Setup, View,
    Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StrideSwitch(Lock<Outputs>);

register!(StrideSwitch, "stride_switch.rs");

#[derive(Default)]
struct Outputs {
    each: Vec<Output>,
    /// How often an output has been told when its next turn is.
    told: u64,
}

#[derive(Clone, Copy, Default)]
struct Output {
    tickets: u32,
    /// When its turn comes, compared with the others'.
    pass: u64,
    /// The number of its being told so: of outputs with equal turns the one told last goes first.
    told: u64,
}

/// The stride of an output with one ticket.
const LONGEST: u32 = 1 << 16;
const MOST_TICKETS: u32 = 1 << 15;

impl Element for StrideSwitch {
    const CLASS: Class = Class::new("StrideSwitch", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let count = setup.outputs();
        if setup.args.len() != count {
            let message = format!("need {count} arguments, one per output port");
            setup.args.error((), message);
            return Err(Failed);
        }
        let mut outputs = Outputs { each: vec![Output::default(); count], told: 0 };
        let mut all = Vec::new();
        for at in 0..count {
            let name = format!("TICKETS{at}");
            let tickets: i64 = setup.args.mandatory(&name);
            if tickets < 0 {
                let message = format!("argument {at} (number of tickets) must be >= 0");
                setup.args.error(name.as_str(), message);
            } else if tickets > MOST_TICKETS.into() {
                let message = format!("output {at}'s tickets reduced to {MOST_TICKETS}");
                setup.args.warn(name.as_str(), message);
            }
            all.push(bounded(tickets));
        }
        setup.args.complete()?;
        // The last one first: those with equal turns then stand in the order of the ports.
        for (at, tickets) in all.into_iter().enumerate().rev() {
            if let Some(output) = outputs.each.get_mut(at) {
                output.tickets = tickets;
            }
            outputs.stride(at);
        }
        Ok(Self(Lock::new(outputs)))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("config", |switch, _| {
            let outputs = switch.0.lock();
            let tickets = outputs.each.iter().map(|output| output.tickets.to_string());
            tickets.collect::<Vec<_>>().join(", ")
        });
        handlers.try_read(ANY_HANDLER, |switch, call| {
            let outputs = switch.0.lock();
            let at = outputs.named(call.handler())?;
            Ok(outputs.each.get(at).map_or(0, |output| output.tickets))
        });
        handlers.write(ANY_HANDLER, |switch, call| {
            let mut outputs = switch.0.lock();
            let at = outputs.named(call.handler())?;
            let tickets: i64 = call.parse().map_err(|_| "tickets value must be integer")?;
            if tickets < 0 {
                return Err("number of tickets must be >= 0".into());
            }
            outputs.set_tickets(at, bounded(tickets));
            Ok(())
        });
    }
}

impl PerPacket for StrideSwitch {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        let mut outputs = self.0.lock();
        let Some(next) = outputs.next() else { return Way::drop(Reason::Discarded) };
        outputs.stride(next);
        Way::output(next as u16)
    }
}

fn bounded(tickets: i64) -> u32 {
    u32::try_from(tickets.max(0)).unwrap_or(MOST_TICKETS).min(MOST_TICKETS)
}

impl Outputs {
    /// The output whose turn it is.
    fn next(&self) -> Option<usize> {
        let with_tickets = self.each.iter().enumerate().filter(|(_, output)| output.tickets > 0);
        let first = with_tickets.min_by_key(|(_, output)| (output.pass, Reverse(output.told)));
        first.map(|(at, _)| at)
    }

    /// Puts an output's turn off by its stride.
    fn stride(&mut self, at: usize) {
        self.told += 1;
        if let Some(output) = self.each.get_mut(at) {
            output.told = self.told;
            output.pass += u64::from(LONGEST.checked_div(output.tickets).unwrap_or(0));
        }
    }

    fn set_tickets(&mut self, at: usize, tickets: u32) {
        let first = self.next().and_then(|first| self.each.get(first)).map(|first| first.pass);
        let Some(output) = self.each.get_mut(at) else { return };
        let before = std::mem::replace(&mut output.tickets, tickets);
        if before == 0 && tickets > 0 {
            // It comes in as one that has just had a turn.
            output.pass = first.unwrap_or(0);
            self.stride(at);
        }
    }

    /// The output that a handler is about: `tickets2`.
    fn named(&self, handler: &str) -> Result<usize, HandlerError> {
        let number = handler.strip_prefix("tickets").and_then(|number| number.parse().ok());
        let known = number.filter(|&number| number < self.each.len());
        known.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    fn counts(rig: &mut Rig, packets: usize) -> Vec<usize> {
        rig.push(0, &vec!["a"; packets]).iter().map(Vec::len).collect()
    }

    #[test]
    fn shares_are_those_of_the_tickets() {
        let mut rig = Rig::new("StrideSwitch(3, 1, 0, 4)", 1, 4).unwrap();
        let out = counts(&mut rig, 8000);
        for (count, share) in out.iter().zip([3000_usize, 1000, 0, 4000]) {
            assert!(count.abs_diff(share) <= 2, "{out:?}");
        }
        rig.write("tickets0", "0").unwrap();
        rig.write("tickets2", "1").unwrap();
        rig.write("tickets3", "1").unwrap();
        let out = counts(&mut rig, 3000);
        assert_eq!(out[0], 0);
        assert!(out[1..].iter().all(|count| count.abs_diff(1000) <= 2), "{out:?}");
        assert_eq!(rig.read("config").unwrap(), "0, 1, 1, 1");
        assert!(rig.write("tickets4", "1").is_err());
        assert!(rig.write("tickets1", "-1").is_err());
    }

    #[test]
    fn without_tickets_nothing_passes() {
        let mut rig = Rig::new("StrideSwitch(0, 0)", 1, 2).unwrap();
        assert_eq!(counts(&mut rig, 5), [0, 0]);
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 5)]);
        assert!(Rig::new("StrideSwitch(1)", 1, 2).is_err());
        assert!(Rig::new("StrideSwitch(1, -1)", 1, 2).is_err());
    }
}
